"""C and Lua source seen as tokens: what the lint tools share. Comments and strings are blanked out, lines stay."""

import re

_BLANK = re.compile(
    r"""/\*.*?\*/            # a comment
      | //(?:\\\n|[^\n])*    # a line comment
      | "(?:\\.|[^"\\\n])*"  # a string
      | '(?:\\.|[^'\\\n])*'  # a character
    """,
    re.VERBOSE | re.DOTALL,
)
_BLANK_LUA = re.compile(
    r"""--[^\n]*            # a comment; script_code() in script_text.c refuses other forms
      | "(?:\\.|[^"\\\n])*"  # a string
      | '(?:\\.|[^'\\\n])*'
    """,
    re.VERBOSE,
)
_DIRECTIVE = re.compile(r"^[ \t]*#(?:\\\n|[^\n])*", re.MULTILINE)
_TOKEN = re.compile(r"[A-Za-z_]\w*|\d[\w.]*|\S")


def _blank(text):
    """The same length and lines, nothing to see; a string keeps its quotes, to stay one token."""
    kept = re.sub(r"[^\n]", " ", text)
    return '"' + kept[1:-1] + '"' if text[0] in "\"'" and len(text) > 1 else kept


def blank(source):
    """Source without comments and without what strings say."""
    return _BLANK.sub(lambda match: _blank(match.group()), source)


def blank_lua(source):
    """The same of a script of Redis."""
    return _BLANK_LUA.sub(lambda match: _blank(match.group()), source)


def lua_comments(source):
    """Yields (offset, comment)."""
    for match in _BLANK_LUA.finditer(source):
        if match.group().startswith("--"):
            yield match.start(), match.group()


def only_text(source):
    """Comments and strings of the source; the rest is blanked out, lines stay."""
    kept = list(re.sub(r"[^\n]", " ", source))
    for match in _BLANK.finditer(source):
        kept[match.start():match.end()] = match.group()
    return "".join(kept)


def without_directives(source):
    return _DIRECTIVE.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), source)


def words(blanked):
    """Each token once."""
    return set(_TOKEN.findall(blanked))


def tokens(blanked):
    """Yields (line number, token)."""
    line = 1
    at = 0
    for match in _TOKEN.finditer(blanked):
        line += blanked.count("\n", at, match.start())
        at = match.start()
        yield line, match.group()

# Completion of later(1) in bash: commands, their words and options, and names of topics, all asked of
# later itself. `make install` puts it where the package bash-completion looks; else: source conf/later.bash

# Of a command's help: the words of which it takes one, as in
# "usage: later journal restore [--no-expire] [ID] | resync [--no-wait] | status".
_later_verbs() {
    sed -nE '1 { s/^usage: later [a-z-]+ //; s/\[[^]]*\]//g; s/\|/\n/g; p }' <<<"$1" | sed -nE 's/^ *([a-z]+)( .*)?$/\1/p'
}

# Does this option take a value, as a help ("  -w, --wait D    wait up to D …") says?
_later_takes_value() {
    [[ $1 == -?* && $1 != *=* ]] && grep -E '^(Also:)? {1,6}-' <<<"$2" | grep -qE -e "(^|[ ,])$1(, --[a-z-]+)? [^ ]"
}

_later() {
    local words=() command='' server=() help names='' verbs verb='' word before i
    local - IFS=$'\n'
    set -f
    # bash divides words at : and =, which stand in addresses and names.
    for ((i = 0; i <= COMP_CWORD; i++)); do
        if ((i > 1)) && [[ ${COMP_WORDS[i]} == [:=] || ${COMP_WORDS[i - 1]} == [:=] ]]; then
            words[-1]+=${COMP_WORDS[i]}
        else
            words+=("${COMP_WORDS[i]}")
        fi
    done
    word=${words[-1]}
    before=${word%"${COMP_WORDS[COMP_CWORD]}"}
    help=$("${words[0]}" --help 2>/dev/null)
    for ((i = 1; i < ${#words[@]} - 1; i++)); do
        case ${words[i]} in
        -s | --server) server=(--server "${words[i + 1]}") ;;
        --server=*) server=("${words[i]}") ;;
        -*) ;;
        *)
            if [[ ! $command ]]; then
                command=${words[i]}
                help=$("${words[0]}" "$command" --help 2>/dev/null)
            else
                verb=${verb:-${words[i]}}
            fi
            ;;
        esac
        if _later_takes_value "${words[i]}" "$help"; then ((i++)); fi
    done
    verbs=$(_later_verbs "$help")
    if ((i == ${#words[@]})); then # the value of an option, which may be a file
        verbs=''
        if [[ ${words[-2]} == --topic || ${words[-2]} == -o ]]; then command=topics; else command=none; fi
    fi
    if [[ $word == -* ]]; then
        names=$(grep -E '^(Also:)? +-' <<<"$help" | grep -oE -e '--[a-z][a-z-]+')
    elif [[ ! $command ]]; then
        names=$(sed -nE 's/^  ([a-z-]+)  +[A-Z].*/\1/p' <<<"$help")
    elif [[ $verbs && ! $verb ]]; then
        names=$verbs
    elif [[ " push pop list topics topic pause resume clear delete-topic replay export " == *" $command "* ]]; then
        names=$("${words[0]}" topics --json --timeout 1s "${server[@]}" 2>/dev/null |
            sed -nE 's/^\{"name":"([^"\\]*)".*/\1/p')
    fi
    # Not by compgen -W, which would run a command that stands in a topic's name.
    COMPREPLY=()
    for i in $names; do
        [[ $i != "$word"* ]] || COMPREPLY+=("$(printf '%q' "${i#"$before"}")")
    done
}

complete -o default -F _later later

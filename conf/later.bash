# Completion of later(1) in bash: commands, options and names of topics, all asked of later itself.
# `make install` puts it where the package bash-completion looks; else: source conf/later.bash

_later() {
    local words=() command='' server=() names='' word before i
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
    for ((i = 1; i < ${#words[@]} - 1; i++)); do
        case ${words[i]} in
        -s | --server) server=(--server "${words[++i]}") ;;
        --server=*) server=("${words[i]}") ;;
        -t | --timeout | --cacert | --cert | --key | --token-file | --user-file) ((i++)) ;;
        -*) ;;
        *) [[ $command ]] || command=${words[i]} ;;
        esac
    done
    if [[ $word == -* ]]; then
        names=$("${words[0]}" ${command:+"$command"} --help 2>/dev/null |
            grep -E '^(Also:)? +-' | grep -oE -e '--[a-z][a-z-]+')
    elif [[ ! $command ]]; then
        names=$("${words[0]}" --help 2>/dev/null | sed -nE 's/^  ([a-z-]+)  +[A-Z].*/\1/p')
    elif [[ $command == topic && ${words[-2]} == topic ]]; then
        names=$'set\nshow\nunset\ntest\ndelete'
    elif [[ " push pop list topics topic pause resume clear delete-topic replay kick export " == *" $command "* ]]; then
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

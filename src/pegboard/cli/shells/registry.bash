_registry_completion() {
    local line="${COMP_LINE:0:COMP_POINT}" current="${COMP_WORDS[COMP_CWORD]}" type value before number
    local -a typed
    read -ra typed <<< "$line"
    number=$(( ${#typed[@]} - 1 ))
    [[ "$line" == *[[:space:]] ]] && number=$(( number + 1 ))
    # Bash splits words at '=' and ':', and replaces only the last part, so candidates must not repeat the others.
    [[ "$current" =~ ^[=:]+$ ]] && current=""
    before="${typed[number]-}"
    before="${before%"$current"}"
    COMPREPLY=()
    while IFS=, read -r type value; do
        case "$type" in
            dir) compopt -o dirnames ;;
            file) compopt -o default ;;
            plain)
                value="${value%%$'\t'*}"
                [[ "$value" == *[=/.] ]] && compopt -o nospace
                printf -v value '%q' "${value#"$before"}"
                COMPREPLY+=("$value")
                ;;
        esac
    done < <(COMP_WORDS="$line" _REGISTRY_COMPLETE=complete "$1" 2>/dev/null)
}

complete -o nosort -F _registry_completion registry pegboard

_registry_completion() {
    local line="${COMP_LINE:0:COMP_POINT}" current="${COMP_WORDS[COMP_CWORD]}" type value before quote=""
    # Bash splits words at '=' and ':', and replaces only the last part, so candidates must not repeat the others.
    [[ "$current" =~ ^[=:]+$ ]] && current=""
    [[ "$line" == *"$current" ]] || current="${line##*[[:space:]=:]}"
    before="${line%"$current"}"
    before="${before##*[[:space:]]}"
    [[ "$current" == [\"\']* ]] && quote="${current:0:1}"
    COMPREPLY=()
    while IFS=, read -r type value; do
        case "$type" in
            dir) compopt -o dirnames ;;
            file) compopt -o default ;;
            plain)
                value="${value%%$'\t'*}"
                [[ "$value" == *[=/.] ]] && compopt -o nospace
                value="${value#"$before"}"
                case "$quote" in
                    \") value="${value//\\/\\\\}" value="${value//\"/\\\"}" value="${value//\$/\\\$}" value="${value//\`/\\\`}" ;;
                    \') value="${value//\'/\'\\\'\'}" ;;
                    *) [[ -n "$value" ]] && printf -v value '%q' "$value" ;;
                esac
                [[ -n "$value" ]] && COMPREPLY+=("$value")
                ;;
        esac
    done < <(COMP_WORDS="$line" _REGISTRY_COMPLETE=complete "$1" 2>/dev/null)
}

complete -o nosort -F _registry_completion registry pegboard

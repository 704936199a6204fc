#compdef registry pegboard

_registry_completion() {
    local -a plain open described response
    local item type value
    (( ! $+commands[registry] )) && return 1
    response=("${(@f)$(COMP_WORDS="${(j: :)words[1,CURRENT]}" _REGISTRY_COMPLETE=complete registry 2>/dev/null)}")
    for item in ${response}; do
        type="${item%%,*}" value="${${item#*,}%%$'\t'*}"
        case "$type" in
            dir) _path_files -/ ;;
            file) _path_files -f ;;
            plain)
                if [[ "$value" == *[=/.] ]]; then
                    open+=("$value")
                elif [[ "$item" == *$'\t'* ]]; then
                    described+=("${value//:/\\:}:${item#*$'\t'}")
                else
                    plain+=("$value")
                fi
                ;;
        esac
    done
    [[ -n "$described" ]] && _describe -V unsorted described -U
    [[ -n "$plain" ]] && compadd -U -V unsorted -a plain
    [[ -n "$open" ]] && compadd -U -V unsorted -S '' -a open
}

if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
    _registry_completion "$@"
else
    compdef _registry_completion registry pegboard
fi

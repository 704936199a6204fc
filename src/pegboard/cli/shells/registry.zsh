#compdef registry

_registry_completion() {
    local -a plain open described response
    local type key text
    (( ! $+commands[registry] )) && return 1
    response=("${(@f)$(COMP_WORDS="${words[*]}" COMP_CWORD=$((CURRENT-1)) _REGISTRY_COMPLETE=zsh_complete registry 2>/dev/null)}")
    for type key text in ${response}; do
        case "$type" in
            dir) _path_files -/ ;;
            file) _path_files -f ;;
            plain)
                if [[ "$key" == *= ]]; then
                    open+=("${key//\\:/:}")
                elif [[ "$text" == "_" ]]; then
                    plain+=("$key")
                else
                    described+=("$key:$text")
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
    compdef _registry_completion registry
fi

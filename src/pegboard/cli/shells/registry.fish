function _registry_completion
    set -l response (env _REGISTRY_COMPLETE=complete COMP_WORDS=(commandline -cp) registry 2>/dev/null)
    for item in $response
        set -l part (string split -m 1 "," -- $item)
        switch $part[1]
            case dir
                __fish_complete_directories $part[2]
            case file
                __fish_complete_path $part[2]
            case plain
                echo $part[2]
        end
    end
end

complete --no-files --command registry --command pegboard --arguments "(_registry_completion)"

# Prints the processes, devices and shared memory of this container, then answers questions on stdin: "look" and "clock". Needs
# a shell and the usual small programs; a line that one of them cannot give is left out.

LC_ALL=C
export LC_ALL
own=$(readlink /proc/self/ns/mnt)
[ -n "$own" ] || {
    echo "the image has no readlink" >&2
    exit 1
}

# Processes of this container: pods may share process ids, and then others are seen, too.
processes() {
    for dir in /proc/[0-9]*; do
        [ "$(readlink "$dir/ns/mnt" 2>/dev/null)" = "$own" ] || continue
        pid=${dir#/proc/}
        variables=$(tr '\0' '\n' 2>/dev/null <"$dir/environ")
        case "
$variables
" in *"
MUSTER_PROBE=1
"*) continue ;; esac
        # A process that has ended has no variables, and neither has one that is being started.
        [ -n "$variables" ] || continue
        echo "process $pid"
        printf '%s\n' "$variables" | sed -n \
            -e 's/^CUDA_VISIBLE_DEVICES=/env &/p' -e 's/^NVIDIA_VISIBLE_DEVICES=/env &/p' \
            -e 's/^WORLD_SIZE=/env &/p' -e 's/^MASTER_ADDR=/env &/p' -e 's/^MUSTER_TASK=/env &/p'
        sed -n 's/^Max locked memory *\([a-z0-9]*\) .*/memlock \1/p' "$dir/limits" 2>/dev/null
        if files=$(ls -l "$dir/fd" 2>/dev/null); then
            echo "readable"
            printf '%s\n' "$files" | sed -n 's|.* -> \(/dev/nvidia[0-9][0-9]*\)$|open \1|p'
        fi
    done
}

devices() {
    for file in /dev/nvidia[0-9]*; do
        [ -e "$file" ] || continue
        case $( (: <"$file") 2>&1) in
        *enied* | *"not permitted"*) echo "closed-file $file" ;;
        *) echo "file $file" ;;
        esac
    done
    for adapter in /sys/class/infiniband/*; do
        [ -e "$adapter" ] && echo "rdma ${adapter##*/}"
    done
}

shared_memory() {
    if error=$( (: >"/dev/shm/muster-probe-$$") 2>&1); then
        rm -f "/dev/shm/muster-probe-$$"
        echo "shm $(df -Pk /dev/shm | tail -n 1)"
    else
        printf 'no-shm %s\n' "$error"
    fi
}

look() {
    processes
    devices
    shared_memory
    echo "done"
}

look
while read -r question; do
    case $question in
    look) look ;;
    clock) echo "clock $(date +%s%N)" ;;
    esac
done

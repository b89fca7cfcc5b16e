# Sends a checkpoint signal to the processes of this container that handle it, and waits until the job writes to its file. Arguments:
# number of the signal, which processes get it (handlers, outermost, all), seconds, file, and perhaps `ending`. Needs a shell and the usual
# small programs. Each process gets the signal once; those that install a handler later get it then. `ending` is for a container that is being
# stopped: the script then ends as soon as no process has got the signal, or all that have got it have ended.

LC_ALL=C
export LC_ALL
# The caller may leave; the request goes on.
trap '' PIPE
signal=$1 to=$2 file=$4 mode=${5:-}
own=$(readlink /proc/self/ns/mnt)
[ -n "$own" ] || {
    echo "error the image has no readlink"
    exit 1
}
deadline=$(($(date +%s) + $3)) || exit 1

# Empty until the next acknowledgement.
(: >"$file") 2>/dev/null || {
    echo "error $file cannot be written"
    exit 1
}

# Returns 0 if a mask of 16 hexadecimal digits has the signal, which is one of the lower half.
has() {
    [ $((0x${1#????????} >> (signal - 1) & 1)) -eq 1 ]
}

# ILL, BUS, FPE, USR1, SEGV, USR2, VTALRM and SYS: a bash with an EXIT trap would run it and end.
catches_all() {
    [ $((0x${1#????????} & 1107300040)) -eq 1107300040 ]
}

# All threads block the signal: the process waits for it.
all_block() {
    for thread in "$1"/task/*/status; do
        mask=$(sed -n 's/^SigBlk:[[:space:]]*//p' "$thread" 2>/dev/null)
        # A thread that has ended blocks nothing.
        [ -z "$mask" ] || has "$mask" || return 1
    done
}

# A fork of its parent that has not executed another program: the handler is the parent's.
is_copy() {
    eval "above=\${handles_$parent:-} above_image=\${image_$parent:-}"
    [ -n "$above" ] || return 1
    case $image in *:0) return 0 ;; esac
    [ "$image" = "$above_image" ]
}

has_handler_above() {
    up=$parent
    while eval "next=\${parent_$up:-}" && [ -n "$next" ]; do
        eval "above=\${handles_$up:-}"
        [ -z "$above" ] || return 0
        up=$next
    done
    return 1
}

look() {
    for pid in $pids; do
        unset "parent_$pid" "start_$pid" "image_$pid" "handles_$pid"
    done
    pids='' blocked_now=''
    for dir in /proc/[0-9]*; do
        [ "$(readlink "$dir/ns/mnt" 2>/dev/null)" = "$own" ] || continue
        state='' parent='' caught='' ignored='' blocked=''
        while read -r key value _; do
            case $key in
            State:) state=$value ;;
            PPid:) parent=$value ;;
            SigCgt:) caught=$value ;;
            SigIgn:) ignored=$value ;;
            SigBlk:) blocked=$value ;;
            esac
        done <<END
$(cat "$dir/status" 2>/dev/null)
END
        [ -n "$caught" ] && [ "$state" != Z ] || continue
        stat=$(cat "$dir/stat" 2>/dev/null)
        # After the name, which may have blanks: start time, start of the code, start of the stack.
        set -- ${stat##*) }
        [ $# -ge 26 ] || continue
        pid=${dir#/proc/} start=${20} handles=''
        if has "$caught"; then
            { [ "$to" = handlers ] && catches_all "$caught"; } || handles=1
        elif ! has "$ignored" && has "$blocked" && all_block "$dir"; then
            # Others block it for a moment only.
            blocked_now="$blocked_now $pid:$start "
            case $blocked_before in *" $pid:$start "*) handles=1 ;; esac
        fi
        pids="$pids $pid"
        eval "parent_$pid=$parent start_$pid=$start image_$pid=${24}:${26} handles_$pid=$handles"
    done
    blocked_before=$blocked_now
}

send() {
    for pid in $pids; do
        eval "parent=\$parent_$pid start=\$start_$pid image=\$image_$pid handles=\$handles_$pid"
        [ -n "$handles" ] || continue
        case $reached in *" $pid:$start "*) continue ;; esac
        case $to in
        handlers) is_copy && continue ;;
        outermost) has_handler_above && continue ;;
        esac
        kill "-$signal" "$pid" 2>/dev/null || continue
        reached="$reached $pid:$start "
        count=$((count + 1))
    done
}

# Returns 0 if a process that has got the signal was there at the last look.
is_saving() {
    for pid in $pids; do
        eval "start=\$start_$pid"
        case $reached in *" $pid:$start "*) return 0 ;; esac
    done
    return 1
}

pids='' reached='' blocked_before='' count=0 told='' pause=1 left=0 looks=0
while :; do
    if [ "$left" -eq 0 ]; then
        look
        send
        if [ "$count" != "$told" ]; then
            told=$count
            echo "sent $count"
        fi
        left=$pause looks=$((looks + 1))
        [ "$mode" = ending ] || [ "$pause" -ge 8 ] || pause=$((pause * 2))
    fi
    if [ -s "$file" ]; then
        # What is written together is read together.
        sleep 0.2 2>/dev/null || sleep 1
        echo "saved $(tail -n 1 "$file" | tr -d '\000\r')"
        exit 0
    fi
    # Whether a process waits for the signal shows at the second look.
    [ "$mode" != ending ] || [ "$looks" -lt 2 ] || is_saving || exit 0
    [ "$(date +%s)" -lt "$deadline" ] || exit 0
    sleep 0.2 2>/dev/null || sleep 1
    left=$((left - 1))
done

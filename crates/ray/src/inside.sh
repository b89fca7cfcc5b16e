# Runs a program on the Ray cluster of a job, from a shell beside rank 0: finds the file that the head's launcher wrote.
# Only directories of this user count, and none can be exchanged once it is entered. `python` is the interpreter of the job.
# A session of Slurm lacks the variables of the job, a container's those of both.
slurm=${SLURM_JOB_ID:--} muster=$MUSTER_JOB_ID.$MUSTER_ARRAY_INDEX before=$PWD
for folder in /tmp/mr*-*; do
  cd -P "$folder" 2> /dev/null && [ -O . ] && [ -f head ] || continue
  { read -r of_slurm; read -r of_muster; read -r address; read -r token; read -r python; } < head
  [ "$of_slurm" = "$slurm" ] || continue
  [ "$of_muster" = "$muster" ] || [ "$muster" = . ] || continue
  [ "${RAY_AUTH_TOKEN:-$token}" = "$token" ] || [ "$muster" = . ] || continue
  cd "$before" || exit 75
  [ ! -f "$folder/variables" ] || . "$folder/variables"
  export MUSTER_RAY_FOLDER="$folder"
  export RAY_ADDRESS="$address" RAY_AUTH_TOKEN="$token" RAY_AUTH_MODE=token PATH="${python%/*}:$PATH"
  case $1 in
    python | python3) shift && exec "$python" "$@" ;;
    *) exec "$@" ;;
  esac
done
# KubeRay starts heads itself; their containers have address and secret.
if [ -n "$KUBERAY_GEN_RAY_START_CMD" ] && [ -n "$RAY_ADDRESS" ]; then
  export MUSTER_RAY_FOLDER=/nonexistent
  exec "$@"
fi
echo "the head of the Ray cluster is not up on this node" >&2
exit 75

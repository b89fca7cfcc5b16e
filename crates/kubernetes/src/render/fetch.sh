set -u
url=$1 ref=$2 dir=$3
export auth=/muster/git
if ! command -v git >/dev/null; then
  echo 'the image has no git: name one that has it, `kubernetes: {git: {image: ...}}`' >&2
  exit 127
fi
HOME=$(mktemp -d) && export HOME GIT_TERMINAL_PROMPT=0 || exit
if [ -f "$auth/ssh-privatekey" ]; then
  (umask 077; cat "$auth/ssh-privatekey" > "$HOME/key") || exit
  known=accept-new
  if [ -f "$auth/known_hosts" ]; then known="yes -o UserKnownHostsFile=$auth/known_hosts"; fi
  export GIT_SSH_COMMAND="ssh -i $HOME/key -o BatchMode=yes -o StrictHostKeyChecking=$known"
elif [ -f "$auth/password" ]; then
  git config --global credential.helper '!f() { echo "username=$(cat "$auth/username")"; echo "password=$(cat "$auth/password")"; }; f' || exit
fi
git config --global --add safe.directory '*' || exit
git init --quiet "$dir" && cd "$dir" || exit
fetch() {
  git fetch --quiet --depth 1 "$url" "$ref" && git rev-parse --quiet --verify FETCH_HEAD > "$HOME/commit" && return
  case $ref in *[!0-9a-f]*) return 1 ;; esac
  git fetch --quiet "$url" '+refs/heads/*:refs/remotes/origin/*' && git rev-parse --quiet --verify "$ref^{commit}" > "$HOME/commit"
}
for pause in 2 5 ''; do
  fetch && break
  if [ -z "$pause" ]; then
    echo "$ref of $url cannot be fetched" >&2
    exit 1
  fi
  sleep "$pause"
done
git checkout --quiet --detach "$(cat "$HOME/commit")" && git log -1 --format='%H %s'

# Runs in the place of a remote backend, once for each call: POSIX sh, with the tools of coreutils or busybox.
#
# The first line of the input is the call, as assignments and functions in the escapes of printf's %b; data may follow.
# The input stays open while somebody waits: its end is the signal to end the command. An answer lies between lines
# that begin with the nonce. A command's processes are found by HERMES_PROCESS in their environment, which children
# inherit, and by their session. Its output goes to files named by the position of their first byte, plus 10^15.
unset HERMES_HELPER
exec 3<&0 </dev/null 8>&1 2>/dev/null
IFS= read -r call <&3 || exit 97
eval "$(printf '%b' "$call")"
case $S in '/~/'*) S=$HOME${S#/~} ;; esac
d=$S/$id

section() { printf '\n%s %s\n' "$nonce" "$1"; }
fail() { section "fail $1"; exit 0; }
give_up() { rm -rf "$d"; fail "$1"; }

# Processes.

count_output() { # in `bytes`
  bytes=0
  for file in "$d"/output.*; do
    [ -s "$file" ] && bytes=$((${file##*.} - 1000000000000000 + $(stat -c %s "$file")))
  done
}

members() {
  left=
  for file in $(grep -lE -e "HERMES_PROCESS=$id" -e "\) [^ZX] [0-9]+ [0-9]+ ${session:-none} " \
    /proc/[0-9]*/environ /proc/[0-9]*/stat); do
    file=${file#/proc/}
    left="$left ${file%/*}"
  done
}

end_all() { # TERM, then after $1 twentieths of a second KILL; in `left` is what does not end
  members
  [ -n "$left" ] || return 0
  kill -TERM $left
  kill -CONT $left
  tries=0
  while members; [ -n "$left" ] && [ $tries -lt 200 ]; do
    [ $tries -ge "$1" ] && { kill -STOP $left; kill -KILL $left; }
    tries=$((tries + 1))
    sleep 0.05 || sleep 1
  done
}

store() { # $1 bytes of the beginning, and in turns at least $2 of the end
  total=0 room=$1 size=0 lost=0
  file=$d/output.1000000000000000
  while :; do
    dd bs=65536 count=64 >> "$file" || lost=1
    [ -s "$file" ] || [ $lost = 1 ] || break
    now=$(stat -c %s "$file")
    [ $lost = 1 ] && { size=${now:-0}; break; }
    [ "${now:-0}" = "$size" ] && break
    size=$now
    if [ "$size" -ge "$room" ]; then
      total=$((total + size)) size=0 room=$2
      [ "$total" -gt "$1" ] && [ -n "$older" ] && rm -f "$older"
      [ "$file" = "$d/output.1000000000000000" ] || older=$file
      file=$d/output.$((1000000000000000 + total))
    fi
  done
  rest=0
  [ $lost = 1 ] && rest=$(wc -c) # a full disk must not stop the command
  printf 'output %s %s\n' $((total + size + rest)) $lost >&4
}

child() {
  exec 3<&- 4>&- 7<&- 8>&-
  unset OLDPWD
  export SHLVL=1 # else bash takes this for a login by ssh, and reads its start-up files once more
  setup
  export HERMES_PROCESS="$id"
  setsid=
  command -v setsid >/dev/null && setsid=setsid
  shell=sh
  command -v bash >/dev/null && shell=bash
  payload
}

run_text() { # what `payload` does with a text; never returns
  if [ -z "$start_up" ]; then exec $setsid $shell -c "$text"; fi
  if [ $shell = bash ]; then BASH_ENV=$d/start_up exec $setsid bash -c "$text"; fi
  exec $setsid sh -c '. "$0"; eval "$1"' "$d/start_up" "$text"
}

run_pty() {
  terminal="stty rows 24 cols 80; tty > '$d/tty'; exec $shell -c \"\$(cat '$d/text')\""
  printf %s "$text" > "$d/text"
  if command -v script >/dev/null; then SHELL=/bin/sh exec $setsid script -qefc "$terminal" /dev/null; fi
  exec $setsid python3 -c 'import os, pty, sys
sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))' sh -c "$terminal"
}

cut_off() { # end the command when nobody waits any longer
  read -r nothing
  echo kill > "$d/why"
  end_all 6
}

out_of_time() {
  over=
  trap 'over=1; kill -KILL $pause' TERM # KILL, since a shell that becomes `sleep` may lose a TERM
  sleep "$limit" &
  pause=$!
  [ -z "$over" ] || kill -KILL $pause # the trap did not know it yet
  wait $pause
  [ -z "$over" ] || exit
  echo timeout > "$d/why"
  end_all 40
}

unconfirmed() { # end a background command that nobody has stored
  tries=0
  while [ ! -e "$d/kept" ]; do
    tries=$((tries + 1))
    [ $tries -gt 30 ] && end_all 6
    sleep 1
  done
}

supervise() {
  child <&7 2>&1 & # by name: what runs in the background has no input else
  main=$!
  session=$main
  echo "$main" > "$d/pid"
  watching=
  for watch in $watches; do
    $watch <&3 >/dev/null 4>&- 8>&- &
    watching="$watching $!"
  done
  wait $main
  code=$?
  [ -n "$watching" ] && kill $watching
  members
  set -- $left
  children=$#
  [ $children = 0 ] && [ "$op" = run ] || end_all 40 # `run` looks once more when it has answered
  set -- $left
  why=
  [ -e "$d/why" ] && read -r why < "$d/why"
  printf 'exit %s %s %s %s\n' "$code" "$children" $# "${why:-none}" >&4
}

prepare() {
  mkdir -p -m 700 "$S" "$d" || fail state
  echo > "$S/used"
  case $dir in '/~' | '/~/'*) dir=$HOME${dir#/~} ;; esac
  cd "$dir" || give_up folder
  if [ -n "$pty" ] && ! command -v script >/dev/null && ! command -v python3 >/dev/null; then
    give_up pty
  fi
  [ -z "$start_up" ] || printf '%s\n' "$start_up" > "$d/start_up" || give_up state
}

op_run() {
  prepare
  kept=
  input=/dev/null
  if [ "$data" -gt 0 ]; then
    input=$d/stdin
    head -c "$data" <&3 > "$input" || give_up state
  fi
  watches="$lifeline out_of_time"
  supervise 4>&8 7< "$input" | store 10000000 1000000 4>&8
  if [ -n "$start_up" ]; then
    section env
    cat "/proc/$$/environ"
    section report
    head -c 512001 "$d/report"
  fi
  first=$d/output.1000000000000000
  count_output
  section head
  if [ "$bytes" -le "$shown" ]; then
    [ "$bytes" = 0 ] || cat "$first"
  else
    head -c $((shown / 2)) "$first"
    section tail
    cat "$d"/output.* | tail -c $((shown / 2))
  fi
  if [ "$bytes" -gt 0 ] && [ "$keeps" = 1 ] && [ "$bytes" -gt "$small" ]; then
    section file
    printf %s "$first"
    kept=1
  fi
  clean_up >/dev/null 3<&- 8>&- & # nobody waits for it
}

clean_up() {
  read -r session < "$d/pid"
  end_all 40
  if [ -n "$kept" ]; then
    rm -f "$d/stdin" "$d/start_up" "$d/report" "$d/why" "$d/pid"
    ls -dt "$S"/cmd_* | tail -n +51 | while read -r old; do rm -rf "$old"; done
  else
    rm -rf "$d"
  fi
}

op_spawn() {
  prepare
  if [ -n "$interactive" ]; then
    mkfifo -m 600 "$d/input" || give_up state
    exec 7<> "$d/input" # for writing too, or it would end with its first writer
  else
    exec 7< /dev/null
  fi
  watches=unconfirmed
  (
    trap '' HUP
    exec 4> "$d/facts"
    supervise | store 65536 200000
    mv "$d/facts" "$d/ended"
  ) >/dev/null 3</dev/null 8>&- &
  keeper=$!
  read -r stat < "/proc/$keeper/stat"
  set -- ${stat##*) }
  echo "$keeper ${20}" > "$d/keeper" || { kill $keeper; end_all 6; give_up state; }
  tries=0
  while [ ! -s "$d/pid" ] && [ $tries -lt 200 ]; do
    tries=$((tries + 1))
    sleep 0.02 || sleep 1
  done
  printf 'pid %s\n' "$(cat "$d/pid")"
}

op_confirm() { echo > "$d/kept" || fail state; }

is_kept() { # whether the supervisor of $d runs
  keeper= started=
  read -r keeper started < "$d/keeper"
  [ -n "$started" ] && read -r stat < "/proc/$keeper/stat" || return 1
  set -- ${stat##*) }
  [ "$1" != Z ] && [ "${20}" = "$started" ]
}

op_statuses() {
  for id in $ids; do
    d=$S/$id
    count_output
    if is_kept; then
      printf '%s running %s\n' "$id" "$bytes"
      continue
    fi
    session=
    [ -e "$d/ended" ] || end_all 0 # its supervisor was killed: nobody reads their output
    set -- none 0 0
    [ -e "$d/ended" ] && while read -r word one two three four; do
      [ "$word" = exit ] && set -- "$one" "$two" "$three"
    done < "$d/ended"
    printf '%s ended %s %s %s %s %s\n' "$id" "$bytes" "$(stat -c %Y "$d/ended" || echo 0)" "$@"
  done
}

op_read() {
  start= sent=0
  for file in "$d"/output.*; do
    [ -e "$file" ] || continue
    at=$((${file##*.} - 1000000000000000))
    size=$(stat -c %s "$file") || continue
    if [ $((at + size)) -le "$since" ] || [ "$sent" -ge "$most" ]; then continue; fi
    if [ -z "$start" ]; then
      start=$since
      [ $at -gt "$since" ] && start=$at
      printf 'start %s\n' "$start"
      section content
    elif [ $at != $((start + sent)) ]; then
      break # the middle is gone
    fi
    take=$((at + size - start - sent))
    [ $take -gt $((most - sent)) ] && take=$((most - sent))
    tail -c +$((start + sent - at + 1)) "$file" | head -c $take
    sent=$((sent + take))
  done
}

op_input() {
  [ -p "$d/input" ] && is_kept || fail input
  timeout 5 head -c "$data" <&3 > "$d/input" || fail slow
}

op_resize() {
  is_kept && stty -F "$(cat "$d/tty")" rows "$rows" cols "$columns" || fail resize
}

op_kill() {
  session=$(cat "$d/pid")
  [ -d "$d" ] && echo kill > "$d/why"
  end_all 40
  [ -z "$left" ] || fail alive
  tries=0
  while is_kept && [ $tries -lt 100 ]; do
    tries=$((tries + 1))
    sleep 0.05 || sleep 1
  done
}

op_forget() { is_kept || rm -rf "$d"; }

# Files. The reasons of failures are names of errors.

locate() {
  p=$path
  case $p in '/~' | '/~/'*) p=$HOME${p#/~} ;; esac
  [ -L "$p" ] && p=$(readlink -f "$p")
  echo > "$S/used"
}

reason_of() {
  case $1 in
    *'No space'*) fail ENOSPC ;;
    *[Qq]uota*) fail EDQUOT ;;
    *'Read-only'*) fail EROFS ;;
    *ermission* | *'not permitted'*) fail EACCES ;;
    *'Not a directory'* | *'not a directory'*) fail ENOTDIR ;;
    *'too long'*) fail ENAMETOOLONG ;;
    *) fail "$2" ;;
  esac
}

facts() { stat -c '%f %s %d:%i:%s:%y' "$p" | while read -r facts; do printf 'facts %s\n' "$facts"; done; }

check_file() {
  [ -e "$p" ] || { [ -d "${p%/*}/" ] && [ ! -x "${p%/*}/" ] && fail EACCES; fail ENOENT; }
  [ -d "$p" ] && fail EISDIR
  [ -f "$p" ] || fail ENXIO
  case $p in /proc/* | /sys/* | /dev/*) fail ENXIO ;; esac
  [ -r "$p" ] || fail EACCES
}

op_look() {
  locate
  [ -e "$p" ] && facts
}

op_content() {
  locate
  check_file
  [ "$(stat -c %s "$p")" -le "$most" ] || fail large
  facts
  section content
  head -c "$most" "$p"
}

op_lines() {
  locate
  check_file
  looked=$(head -c 8192 "$p" | wc -c)
  [ "$(head -c 8192 "$p" | tr -d '\000' | wc -c)" = "$looked" ] || fail "binary $(stat -c %s "$p")"
  facts
  section lines
  head -c 256000000 "$p" | LC_ALL=C awk -v first="$first" -v last=$((first + count - 1)) -v most=4000 '
    NR >= first && NR <= last { cut = length($0) - most; if (cut < 0) cut = 0; print cut ":" substr($0, 1, most) }
    END { print "total:" NR }'
}

op_write() {
  locate
  [ -d "$p" ] && fail EISDIR
  if [ -e "$p" ]; then
    [ -f "$p" ] || fail ENXIO
    case $(stat -c %A "$p") in *w*) ;; *) fail protected ;; esac
  fi
  folder=${p%/*}/
  said=$(mkdir -p "$folder" 2>&1) || reason_of "$said" EACCES
  new=$folder.hermes-$nonce.tmp
  said=$( (LC_ALL=C head -c "$data" <&3 > "$new") 2>&1)
  if [ "$(stat -c %s "$new")" != "$data" ]; then
    rm -f "$new"
    reason_of "$said" ENOSPC
  fi
  created=1
  if [ -e "$p" ]; then
    created=0
    chown "$(stat -c %u:%g "$p")" "$new"
    chmod "$(stat -c %a "$p")" "$new"
  fi
  if [ -n "$expected" ] && [ "$(stat -c %d:%i:%s:%y "$p")" != "$expected" ]; then
    rm -f "$new"
    fail changed
  fi
  mv -f "$new" "$p" || { rm -f "$new"; fail EACCES; }
  printf 'created %s\n' $created
  section path
  printf %s "$p"
}

op_list() {
  locate
  [ -e "$p" ] || fail ENOENT
  [ -d "$p" ] || fail ENOTDIR
  [ -r "$p" ] || fail EACCES
  section entries
  for file in "$p"/* "$p"/.*; do
    name=${file##*/}
    case $name in . | ..) continue ;; esac
    kind=o
    if [ -L "$file" ]; then kind=l; elif [ -d "$file" ]; then kind=d; elif [ -f "$file" ]; then kind=f; fi
    [ $kind != o ] || [ -e "$file" ] || continue
    printf '%s%s\000' $kind "$name"
    most=$((most - 1))
    [ $most -gt 0 ] || break
  done
}

section begin
"op_$op"
section end

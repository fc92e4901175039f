package injector

import (
	"path"
	"strconv"
	"strings"

	"github.com/calico-probe/calico-probe/probe"
)

// view describes how a program in a remote shell sees the node.
type view struct {
	root, proc string
	only       []string // the visible directories of the node; nil = all
}

// machineIDs returns the files with the node's machine-id, in the kubelet's order. It returns nothing if the node's
// root is not visible.
func (v view) machineIDs() []string {
	if v.only != nil {
		return nil
	}
	return []string{path.Join(v.root, "etc/machine-id"), path.Join(v.root, "var/lib/dbus/machine-id")}
}

// uploadScript runs in the remote shell. It receives the probe and runs it.
//
// Every login shell must pass the script to sh unchanged. So the script is one line without a backslash, and every ! in
// it is before a blank.
//
// Its replies to the client begin with the run ID. Each reply is on a separate line, even after a login file without a
// final newline. The order is:
//
//	on ID                      the machine's machine-id; nothing is created before the client answers "go"
//	lacks NAME | nowhere       it gives up: a program is missing, or no folder is usable
//	send packed | send plain   the client sends the probe, packed by gzip or not
//	broken                     the upload is incomplete, or the probe does not run
//	ready root | ready user    the probe is started: its protocol follows
//
// The client waits for each reply before it sends input. Otherwise a program could read the next program's input. The
// probe needs a folder without noexec: /run, /tmp and /dev/shm are often mounted noexec. A shell runs its trap only
// between two programs. So if the connection is lost silently, a child process kills programs that wait for input. The
// probe removes its own file as soon as it runs. If it never runs, the trap removes the file. If the disk is full, the
// script still reads the rest of the probe, because a client that is sending does not read replies.
const uploadScript = `umask 077; d=;
say() { echo; echo "{run} $*"; };
i=; for p in {ids}; do [ -n "$i" ] || read i <"$p"; done 2>/dev/null;
say on "$i";
( i=0; while [ $i -lt 15 ]; do sleep 2 || exit; i=$((i+1)); done; kill $$ ) </dev/null >/dev/null 2>&1 & k=$! ;
read g; kill $k 2>/dev/null; [ "$g" = go ] || exit 1;
trap 'r=$?; [ -z "$d" ] || rm -rf "$d"; exit $r' EXIT;
trap 'exit 1' HUP INT TERM PIPE;
for x in chmod head mkdir rm sh wc; do command -v $x >/dev/null 2>&1 || { say lacks $x; exit 1; }; done;
for b in {folders}; do
free=$(df -Pk "$b" 2>/dev/null | { read h; read f s u a r; echo "$a"; });
[ "${free:-{kb}}" -ge {kb} ] 2>/dev/null || continue;
mkdir "$b/calico-probe-{run}" 2>/dev/null || continue;
d="$b/calico-probe-{run}";
if ( : >"$d/pid" && : >"$d/packed" && : >"$d/probe" && rm "$d/pid" "$d/packed" && chmod 700 "$d/probe" && "$d/probe" ) </dev/null >/dev/null 2>&1; then break; fi;
rm -rf "$d"; d=;
done;
[ -n "$d" ] || { say nowhere; exit 1; };
n={plain}; f=probe; if command -v gzip >/dev/null 2>&1; then n={packed}; f=packed; fi;
if [ $f = packed ]; then say send packed; else say send plain; fi;
( i=0; while [ $i -lt 60 ]; do sleep 2 && [ -e "$d/pid" ] || exit; i=$((i+1)); done; read p <"$d/pid" && kill $p ) </dev/null >/dev/null 2>&1 &
sh -c 'echo $$ >"$0/pid"; exec head -c $1 >"$0/$2"' "$d" $n $f; rm -f "$d/pid";
if [ $f = packed ]; then gzip -dc <"$d/packed" >"$d/probe"; rm -f "$d/packed"; fi;
[ $(wc -c <"$d/probe") -eq {plain} ] 2>/dev/null || { say broken;
exec 3<&0; head -c $n <&3 >/dev/null & h=$! ;
( i=0; while [ $i -lt 10 ]; do sleep 2 && kill -0 $h || exit; i=$((i+1)); done; kill $h ) </dev/null >/dev/null 2>&1 &
wait $h; exit 1; };
t=; if timeout 1 true 2>/dev/null; then t="timeout 10"; fi;
$t "$d/probe" version </dev/null >/dev/null || { say broken; exit 1; };
s=; w=user; if [ "$(id -u 2>/dev/null)" = 0 ]; then w=root; elif $t sudo -n "$d/probe" version </dev/null >/dev/null 2>&1; then s="sudo -n"; w=root; fi;
o={only}; for p in {dirs}; do if [ -d "$p" ]; then o="$o,$p"; fi; done;
say ready $w; $s "$d/probe" session --unlink --only "$o" {args}`

// folders lists the folders into which the probe may be unpacked. A reboot empties the first folders in the list.
const folders = `/run /tmp /var/tmp "${HOME:-/nowhere}" /dev/shm`

// neededKiB returns the free space needed for a probe of this size, which is one and a half times the size. This
// includes the packed file, and leaves some of the node's disk free.
func neededKiB(plain int) int { return plain*3/2>>10 + 1 }

// scriptFor returns uploadScript for one probe, as one line.
func scriptFor(o Options, method string, v view, plain int) string {
	var ids []string
	for _, p := range v.machineIDs() {
		ids = append(ids, probe.Quote(p))
	}
	only, dirs := "", ""
	if v.only != nil {
		only = "/none" // an empty list would mean everything
		for _, p := range v.only {
			dirs += " " + probe.Quote(p)
		}
	}
	var args []string
	for _, a := range []string{
		"--root", v.root, "--proc", v.proc, "--node", o.Node, "--method", method, "--life", (o.Whole + margin).String(),
	} {
		args = append(args, probe.Quote(a))
	}
	return strings.NewReplacer(
		"\n", " ", "{run}", o.Run, "{ids}", strings.Join(ids, " "),
		"{folders}", folders, "{kb}", strconv.Itoa(neededKiB(plain)),
		"{packed}", strconv.Itoa(len(o.Embedded)), "{plain}", strconv.Itoa(plain),
		"{only}", only, "{dirs}", dirs, "{args}", strings.Join(args, " "),
	).Replace(uploadScript)
}

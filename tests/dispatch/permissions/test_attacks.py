"""Attempts to bypass a forbid rule, with knowledge of README and safety.md. Each is one row; none may work."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
from pathlib import Path

import pytest

from pegboard import (
    Always,
    Once,
    PendingCalls,
    Permissions,
    Reshape,
    Rule,
    StaticToolset,
    Tool,
    ToolCall,
    ToolContext,
    ToolRegistry,
    ToolSpec,
    tool,
    tool_of,
)
from pegboard.approval import ask_later
from pegboard.dispatch.permissions.permissions import policy_of
from pegboard.dispatch.permissions.rules_file import rule_problems
from pegboard.errors import PendingError
from pegboard.execution import ExecutionResponse

RAN = []


@tool(permission="bash", permission_arguments={"line": "command"})
def shell(line: str | list[str]) -> str:
    """Runs a line."""
    RAN.append(line)
    return "ran"


@tool(permission_arguments={"url": "url"}, read_only=True)
def fetch(url: str | list[str]) -> str:
    """Fetches a page."""
    RAN.append(url)
    return "ran"


@tool(permission_arguments={"path": "path"}, read_only=True)
def cat(path: str | list[str]) -> str:
    """Reads files."""
    RAN.append(path)
    return "ran"


@tool(destructive=True)
def delete_all() -> str:
    """Deletes everything."""
    RAN.append("delete_all")
    return "ran"


@tool
async def relay(name: str, arguments: dict, context: ToolContext) -> str:
    """Calls another tool."""
    return (await context.call(name, arguments)).text


FORBIDDEN = Permissions(
    [
        Rule("bash", "rm *", "deny", forbid=True),
        Rule("*", "169.254.169.254", "deny", forbid=True, kind="url", field="url"),
        Rule("fetch", "evil.example", "deny", forbid=True),
        Rule("fetch", "10.0.0.0/8", "deny", forbid=True),
        Rule("fetch", "path.example/latest", "deny", forbid=True),
        Rule("fetch", "path.example/*.pem", "deny", forbid=True),
        Rule("fetch", "*://path.example/admin/*", "deny", forbid=True),
        Rule("fetch", "*://star.example*", "deny", forbid=True),
        Rule("cat", "secret/*", "deny", forbid=True),
        Rule("cat", "s\u00e9cret/*", "deny", forbid=True),
        Rule("delete_all", "*", "deny", forbid=True),
        Rule("*", "*", "allow", kind="text"),
    ],
    "bypass",
)


LINES = r"""
rm x   rm<9>x   <20>rm x   rm -rf -- x   \rm x   r\m x   'rm' x   "r"m x   r''m x   rm${IFS}x   {rm,x}   $'\x72m' x
/bin/rm x   ./rm x   /usr/bin/../bin/rm x   /proc/self/root/bin/rm x   RM x   ~/bin/rm x   /bin/r? x   =rm x
a=r; b=m; $a$b x   $(echo rm) x   `echo rm` x   r$EMPTY\m x   rm<a0>x   r<200b>m x   ls;rm x   ls&&rm x   ls||rm x
ls|rm x   ls&rm x   ls<a>rm x   (rm x)   { rm x; }   ! rm x   >f rm x   if rm x; then :; fi   for i in 1; do rm x; done
case a in a) rm x;; esac   f() { rm x; }; f   coproc rm x   ls # <a>rm x   enable -f x rm; rm x   pv | rm x
$(rm x)   echo `rm x`   echo "$(rm x)"   cat <<28>rm x)   echo ${X:-$(rm x)}   a=$(rm x)   ls > $(rm x)
cat <<E<a>$(rm x)<a>E   bash <<E<a>rm x<a>E   bash <<<'rm x'   echo 'rm x' | bash   printf 'rm x' | sh -s
eval 'r''m x'   eval "$(echo cm0geA== | base64 -d)"   sh -c 'rm x'   sh -ec 'rm x'   bash --norc -c 'rm x'
sh -c '$1' _ 'rm x'   bash -c 'exec "$@"' _ rm x   bash --rcfile <<28>echo rm x) -i   bash --init-file f -c 'rm x'
tcsh -c 'rm x'   csh -fc 'rm x'   fish --command='rm x'   fish --command 'rm x'   fish -C 'rm x'   bash-5.2 -c 'rm x'
zsh5 -c 'rm x'   busybox sh -c 'rm x'   busybox rm x   coreutils rm x   /lib64/ld-linux-x86-64.so.2 /bin/rm x
ld.so /bin/rm x   /lib/ld-musl-x86_64.so.1 /bin/rm x   command -p rm x   builtin command rm x   exec -a ls rm x
sudo rm x   sudo -- rm x   sudo -u root -g root rm x   sudo -E A=b rm x   doas rm x   su -c 'rm x'   pkexec rm x
run0 rm x   daemonize /bin/rm x   env -i rm x   env -S 'rm x'   env --split-string='rm x'   nohup rm x &
time -p rm x   timeout -k 1 5 rm x   nice -n 10 ionice -c 3 rm x   setsid -f rm x   stdbuf -o0 rm x
script -c 'rm x' /dev/null   ssh h rm x   ssh -o ProxyCommand='rm x' h   ssh -oProxyCommand='rm x' h
ssh -o 'ProxyCommand rm x' h   parallel rm ::: x   echo x | xargs rm   xargs -a f rm   xargs sh -c 'rm x'
find . -exec rm {} \;   find . -execdir sh -c 'rm x' \;   fd x -x rm   watch -n1 'rm x'   flock /l rm x
flock /l -c 'rm x'   unshare -r rm x   nsenter -t 1 -m rm x   chroot / rm x   taskset -c 0 rm x   chrt -f 1 rm x
strace -f rm x   fakeroot rm x   firejail --quiet rm x   bwrap --bind / / rm x   tmux new 'rm x'   at now <<< 'rm x'
echo 'rm x' | at now   echo 'rm x' | batch   docker run -v /:/h i rm x   kubectl exec p -- rm x   uv run rm x
trap 'rm x' EXIT   alias l='rm x'   source <<28>echo rm x)   . /dev/stdin <<< 'rm x'   mapfile -C 'rm x' a
echo 'rm x' | bash -C   bash -C <<< 'rm x'   echo 'rm x' | bash --rcfile f   echo 'rm x' | zsh --emulate sh
echo 'rm x' | sh //dev/./stdin   echo 'rm x' | sh ../../dev/stdin   . //dev/stdin <<< 'rm x'   pwsh -Command 'rm x'
env - rm x   trap -- 'rm x' EXIT   eval -- rm x   sudo -s 'rm x'   nix-shell --run 'rm x'   [[ $(rm x) ]]
crontab <<< '* * * * * rm x'   source -- /dev/stdin <<< 'rm x'   case $(rm x) in *) ;; esac   time ls | rm x
find . -exec env rm {} +   docker exec b sh -c 'rm x'   parallel 'rm {}' ::: x   until rm x; do :; done   eval rm x
time { rm x; }   time if rm x; then :; fi   time while rm x; do break; done   time ! rm x   ! time { rm x; }
time -p -- { rm x; }   time time { rm x; }   time case a in a) rm x;; esac   time function f { rm x; }; f
bash --rcfile f <<< 'rm x'   bash -oe posix <<< 'rm x'   . /dev//stdin <<< 'rm x'   bash /dev/./stdin <<< 'rm x'
bash /dev/fd/3 3<<< 'rm x'   cd /dev; bash stdin <<< 'rm x'   env -S 'rm\_x'   env --split='rm\_x'   su <<< 'rm x'
su root <<< 'rm x'   unshare -r <<< 'rm x'   setarch x86_64 <<< 'rm x'   script -q /dev/null <<< 'rm x'
sudo -u root -s <<< 'rm x'   sudo su <<< 'rm x'   ssh h <<< 'rm x'   nix-shell <<< 'rm x'
cd /dev/fd; echo 'rm x' | bash 0
test -v 'a[$(rm x)]'   [ -v 'a[$(rm x)]' ]   [[ 'a[$(rm x)]' -eq 1 ]]   printf -v 'a[$(rm x)]' x   unset 'a[`rm x`]'
read 'a[$(rm x)]' <<< 1   declare 'a[$(rm x)]=1'   let 'a[$(rm x)]'   y='a[$(rm x)]'; ((y))   x='$(rm x)'; echo ${x@P}
read y <<< 'a[$(rm x)]'; ((y))   PS4='$(rm x)'; set -x; ls   PROMPT_COMMAND='rm x' bash -i   hash -p /bin/rm q; q x
compgen -C 'rm x' a   BASH_ENV=<<28>echo rm x) bash -c :   env PS4='$(rm x)' bash -xc ls   set -- '$(rm x)'; echo ${1@P}
export PROMPT_COMMAND='rm x'   for y in 'a[$(rm x)]'; do ((y)); done   builtin test -v 'a[$(rm x)]'
ssh-agent rm x   dbus-launch rm x   logsave f rm x   git bisect run rm x   git submodule foreach 'rm x'
git submodule foreach rm x   git rebase --exec 'rm x' a   git rebase --exec='rm x'   git rebase -x 'rm x'
git filter-branch --tree-filter 'rm x'   cmake -E env A=b rm x   perf stat -- rm x   gtimeout 5 rm x   genv rm x   grm x
gfind . -exec rm {} +   fd -xrm   fd -HIx rm   fd --exec=rm x   fd --exec-batch rm   noglob rm x   nocorrect rm x
- rm x   repeat 3 rm x   repeat 3 { rm x }   not rm x   ls; and rm x   begin rm x; end   bash-static -c 'rm x'
posh -c 'rm x'   lksh -c 'rm x'   oksh <<< 'rm x'   split --filter='rm x' f   split --filter 'rm x' f
gosu bob rm x   su-exec bob rm x   s6-setuidgid bob rm x   chpst -u bob rm x   envdir d rm x   setlock f rm x
npx -y rm x   npx -c 'rm x'   bunx rm x   uvx --from y rm x   pipx run rm x   pnpm dlx rm x   npm x -- rm x
expect -c 'spawn rm x'   expect -c 'exec rm x'   ip netns exec n rm x   nix develop -c rm x   systemd-nspawn -D / rm x
bundle exec rm x   mise x -- rm x   direnv exec . rm x   op run -- rm x   apptainer exec i rm x
lxc-attach -n x -- rm x   nodemon --exec 'rm x'   hyperfine 'rm x'   vagrant ssh -c 'rm x'   mosh h -- rm x
rsync -e 'rm x' a   watchexec rm x   tar -I 'rm x' -cf a   man -P 'rm x' ls   xterm -e rm x   ifne rm x
pee 'rm x'   run-one rm x   softlimit -m 1 rm x   systemd-run --user rm x   openvt rm x   sem rm x
cpulimit -l 5 rm x   caffeinate rm x   unbuffer rm x   aa-exec -p a rm x   s6-envuidgid b rm x   systemd-cat rm x
git -c core.pager='rm x' log   git -c alias.x='!rm x' x   git config alias.x '!rm x'   git grep -O'rm x' a
git difftool -x 'rm x'   git clone -u 'rm x' a   git fetch ext::'rm x'   git clone --upload-pack='rm x' a
GIT_PAGER='rm x' git log   LESSOPEN='|rm x' less f   env EDITOR='/bin/rm x' crontab -e   export VISUAL='rm x'; less f
GIT_CONFIG_VALUE_0='rm x' git log   tar --to-command='rm x' -xf a   tar cf a --checkpoint-action=exec='rm x' b
awk 'BEGIN{system("rm x")}'   gawk 'BEGIN{"rm x"|getline}'   sed '1e rm x' f   sed s/a/rm\ x/e f   ed <<< '!rm x'
vim -c '!rm x'   vi +'!rm x' f   less +'!rm x' f   emacs --eval '(shell-command "rm x")'   ex <<E<a>!rm x<a>E
python -c 'import os; os.system("rm x")'   python3.11 -c 's.run(["rm","x"])'
python3 - <<E<a>os.system("/bin/rm x")<a>E
perl -e 'exec("rm","x")'   ruby -e '`rm x`'   node -e 'e.execSync("rm x")'   php -r 'system("rm x");'
tclsh <<< 'exec rm x'
Rscript -e 'system("rm x")'   osascript -e 'do shell script "rm x"'   m4 <<< 'syscmd(rm x)'   dc -e '!rm x'
make SHELL=rm   make --eval='$(shell rm x)'   make -f - <<< 'a:;rm x'   npm pkg set scripts.a='rm x'
npm run --a='rm x'   socat - EXEC:'rm x'   nc -e 'rm x' h 1   sqlite3 a '.shell rm x'
psql -c '\! rm x'   mysql <<< 'system rm x'
gdb -batch -ex '!rm x'   ftp <<< '!rm x'   mail a <<< '~!rm x'   zip a b -TT 'rm x'   sort --compress-program=rm f
strace -o '|rm x' ls   tcpdump -z 'rm x'   wget --use-askpass=rm x   scp -S 'rm x' a b:   sftp -oProxyCommand='rm x' h
busybox awk 'BEGIN{system("rm x")}'   sudo vim -c '!rm x'   find . -exec perl -e 'exec("rm x")' {} \;   fc -e 'rm x'
sh -c "awk 'BEGIN{system(\"rm x\")}'"   xargs -I{} sed '1e rm x' {}   bind -x '"a":rm x'
[r]m x   r[l-n] x   @(rm) x   +(r)m x   r{m,} x   IFS=_; a=rm_x; $a   set -- rm x; "$@"   a=xrm; ${a#x} x   /*/rm x
~+/rm x   r"$@"m x   r``m x   r$(:)m x   rm<9>x   a[$(rm x)]=1   echo $[$(rm x)]   : ${a:=$(rm x)}   ls >& >(rm x)
select i in 1; do rm x; done   exec 3< <<28>rm x)   command_not_found_handle() { rm x; }; nope   alias ls='rm x'<a>ls
rm x origin main   rm  x   rm x;   rm x&   rm x # x   ls &rm x   ls || rm x   rm \<a>x   if true; then rm x; fi
while rm x; do :; done   case x in x) rm x;; esac   [[ a ]] && rm x   > f rm x   2>&1 rm x   A=b rm x   a=(1); rm x
((rm x))   rm\ x   "rm" x   r""m x   rm 'x'   r\<a>m x   /usr/bin/rm x   $'rm' x   G=rm; $G x   ${X:-rm} x   r? x
/bin/r[m] x   rm<d>x   rm x"   rm x<0>   ls &>f rm x   echo x >(rm x)   sh -c "rm x"   bash -lc "ls; rm x"
bash -o pipefail -c 'rm x'   bash -euo pipefail -c 'rm x'   sh -c 'sh -c "rm x"'   eval "rm x"   bash <<< 'rm x'
for i do rm x; done   select i do rm x; done
echo 'rm x' | sh   curl x | bash -s   bash   bash -   sh /dev/stdin   sh -c "$X"   sh $X   source <(curl x)
su bob -c 'rm x'   su bob --command='rm x'   trap $X EXIT   . /dev/stdin   sudo -u root rm x   env rm x   env A=b rm x
env -S'rm x'   sudo env A=b nice rm x   command rm x   exec rm x   time rm x   timeout 5 rm x   timeout -s KILL 5 rm x
nice -n 5 rm x   stdbuf -oL rm x   xargs rm x   xargs -n1 rm   xargs -I% rm % <<< x   xargs -I % rm %
find . -exec rm x \;   find . -name x -exec sh -c 'rm x' {} +   fd x -x rm x   su -c 'rm x' bob   ssh host rm x
ssh host 'rm x'   watch rm x   sudo -u root -- rm x   sudo --user=root rm x   bash <<'E'<a>rm x<a>E
daemonize -o x rm x   setuidgid bob rm x   xvfb-run -a rm x   sg wheel -c 'rm x'   capsh -- -c 'rm x'
uv run --with x rm x   docker exec -it -u root box rm x   kubectl exec pod -- rm x   alias g='rm x'   sudo -S $X
source /proc/self/fd/0 <<< 'rm x'   tmux send-keys 'rm x' Enter   bash -O extglob -c 'rm x'   ksh93 -c 'rm x'
script -qc'rm x' /dev/null   script -eqc'rm x'   su -lc'rm x' root   env -vS'rm x'   setarch x86_64 rm x
setarch i686 -R rm x   tmux new-session -d rm x   dpkg-architecture -c rm x   runcon a:b:c:d rm x   torify rm x
ts rm x   arch -x86_64 rm x   abduco -n a rm x   history -s rm x; fc -s rm   history -s 'rm x'; fc -s
cat <<-E<a><9>E<a>rm x   cat <<"E F"<a>E F<a>rm x   echo \# ; rm x   # \<a>rm x   echo ${#x}; rm x   {fd}>f rm x
echo $'a\'b'; rm x; echo '   echo "${x:-'}"; rm x; echo '}"'   echo "$(echo ")"; rm x)"   $'\u0072m' x   A+=1 rm x
coproc X { rm x; }   f() rm x   a=([0]=$(rm x))   echo ${x/$(rm x)/}   x=RM; ${x,,} x   y=rm; x=y; ${!x} x
exec -la l rm x
echo rm x | xargs env   echo rm x | xargs -n2 command   find /bin/rm -exec {} x \;   xargs -d'\n' rm   env -uPATH rm x
coreutils --coreutils-prog=rm x   coreutils --coreutils-prog-shebang=rm f x   cmd /c rm x   cmd.exe /d /s /c "rm x"
cmd /Crm x   pidproxy f rm x   rm.exe x   powershell -Command 'rm x'   env 'BASH_FUNC_ls%%=() { rm x; }' bash -c ls
export 'BASH_FUNC_ls%%=() { rm x; }'   env a-b=c rm x   env -u A %=1 sh -c 'rm x'   flock a=b rm x
nsenter -a -t 1 -- rm x   unshare -w . rm x   socat - SYSTEM:'rm x'   builtin eval rm x   bash -c '$0 x' rm
sh -c -- 'rm x'
echo <(rm x)   echo >(rm x)   echo ${x:=$(rm x)}   echo ${x/a/`rm x`}   echo $((a[$(rm x)]))   echo $[a[$(rm x)]]
echo "${x:?$(rm x)}"   echo $"a`rm x`"   echo a\; ; rm x   echo a;rm${IFS}x   echo a;$'\x72m' x   echo a; r''m x
echo a; r\m x   echo a; {rm,x}   echo a; ${x:-rm} x   echo "a'"; rm x; echo "'"   echo \'; rm x; echo \'
echo "\\"; rm x; "\\"   echo $'a\'; rm x #'; rm x   echo() { rm x; }; echo x   alias echo=rm; echo x
[[ -n $(rm x) ]]   cat <<'E'<a>a<a>E<a>rm x   cat <<"E"<a>a<a>E<a>rm x   cat <<A <<B<a>A<a>B<a>rm x
cat <<E<a>E <a>E<a>rm x   echo 'a<a>'; rm x   x='$(rm x)'; echo "${x@P}"   x='a[$(rm x)]'; echo $((x))
PS4='$(rm x)'; set -x; echo   PROMPT_COMMAND='rm x' echo   mapfile -C 'rm x' -c 1 x < f   eval "r"m x
a=r b=m; $a$b x   exec -a x rm x   env --chdir=. rm x   nohup -- rm x   setsid -w rm x   flock x -c 'rm x'
script -qc 'rm x' /dev/null   xargs rm <<< x   echo x | xargs -n1 -- rm   echo cm0geA== | base64 -d | sh
sh <<E<a>r"m" x<a>E   bash -c "r""m x"   sh -c "$(printf 'r%s x' m)"   /usr/bin/[r]m x   ./../../../../usr/bin/rm x
/lib64/ld-linux-x86-64.so.2 /usr/bin/rm x   find . -execdir sh -c 'rm x' +   python3 -c "import os; os.system('rm x')"
tar --checkpoint-action=exec='rm x' -cf x f   make -f - <<< 'x:;rm x'   vim -es -c '!rm x' -c q   less '+!rm x' f
which rm | xargs -I{} {} x
"""

LISTS = r"""
/usr/bin/../bin/rm x   env -S 'rm x'   sh -c '$0 x' rm   bash -c '"$@"' x rm x   sh -ec -- 'rm x'   busybox rm x
bash +O extglob -c 'rm x'   xargs -a x rm   find . -exec rm x ';'   timeout 1 rm x   /proc/self/root/usr/bin/rm x
script -c 'rm x' /dev/null   sudo -n rm x
"""

URLS = r"""
http://169.254.169.254   http://169.254.169.254.   HTTP://169.254.169.254:80/x   http://0xa9fea9fe   http://2852039166
http://0251.0376.0251.0376   http://169.254.43518   http://[::ffff:a9fe:a9fe]   http://[::ffff:169.254.169.254]
http://[64:ff9b::a9fe:a9fe]/   http://[2002:a9fe:a9fe::]/   http://[::169.254.169.254]   http://a@169.254.169.254
http://169<3002>254<3002>169<3002>254   http://<ff11><ff16><ff19>.254.169.254   http://169.254.169.254%2f.ok.example
169.254.169.254   //169.254.169.254   http:169.254.169.254   http:\\169.254.169.254   ftp://169.254.169.254
http://ok.example@169.254.169.254   http://evil.example   http://EVIL.Example./   http://a.b.evil.example
http://ok.example@evil.example   http://evil.example\@ok.example   http://ok.example#@evil.example<a>
http://ev<ad>il.example   http://<ff45>vil.example   http://evil%2eexample   gopher://evil.example   evil.example/x
http://[64:ff9b:1:a9fe:a9:fe00::]   http://[::ffff:0:169.254.169.254]
http://evil.example:99   <20>http://evil.example   http://10.1.2.3   http://[::ffff:10.1.2.3]
http://[64:ff9b::10.1.2.3]   http://012.1.2.3   http://10.1   http://path.example/latest   http://path.example/latest/
http://path.example/latest?   http://path.example/latest?x=1   http://path.example/x/..//latest/?x
path.example/k.pem?x   http://path.example/%6catest#x   http://path.example/k.pem;v=1   http://path.example/k.pem/
http://path.example/LATEST   http://path.example/latest%20   http://path.example/k.pem%00.txt
http://path.example/k%2ePEM.   https:evil.example   https:/evil.example   https:///evil.example   http://ev<9>il.example
view-source:http://evil.example   blob:http://evil.example
http://evil.example%00.ok.example   http://evil<ff0e>example   http://evil<ff61>example
http://%65vil.example   http://ok.example;@evil.example   http://169.254.169.254:080   http://169.16689662
http://[0:0:0:0:0:ffff:a9fe:a9fe]   http://<2460>69.254.169.254   http://evil.example..   http://e<301>vil.example
http://[fe80::5efe:a9fe:a9fe]   http://[2001::5601:5601]   http://[::ffff:169.254.169.254%25eth0]
jar:http://evil.example!/   feed:http://evil.example   http://path.example/a/.%2e/latest   http://path.example:80/./latest
http://path.example//latest   http://path.example/a/..;/latest   http://path.example\latest
http://path.example/a/%2e%2e/latest   http://u@path.example/latest   http://path.example/%256catest
http://path.example/%2561/../latest   ws://evil.example:8443   http://ok.example%2f@evil.example
http://evil.example:80/   http://user:pw@evil.example/   http://ok.example\@evil.example/   http://evil.example?x
http://evil.example#x   //evil.example/   http:\\evil.example/   http://evi<200b>l.example/   ht<9>tp://evil.example/
<1>http://evil.example/   http://evil.example<0>.ok.example/   http://<24d4>vil.example/   http://evil.example:x/
http://evil.example[/   http://425.510.425.510/   http://169.254.169.254@ok.example/\   https://path.example/%61dmin/x
https://path.example/admin%2fx   https://path.example\admin\x   https://PATH.example:443/admin/x
https://path.example//admin/x   https://path.example/a/..;/admin/x   https://u@path.example/admin/x
https://path.example/%2561dmin/x   https://path.example/ADMIN/x   http://STAR.example./   http://u@star.example:80
star.example   http://star%2eexample   http://a.star.example/x
"""

PATHS = r"""
secret/key   ./secret//key   secret/./key   src/../secret/key   TOP/secret/key   //TOP/secret/key   way/key
way/../secret/key   deep/up/secret/key   ~/key   $PLACE/key   ${PLACE}/key   secret<200b>/key   <ff53>ecret/key
secret/key/   secret/key/.   secret/../secret/key   secret/key<0>   file://TOP/secret/key   secret<20>/key
/proc/self/cwd/secret/key   /dev/fd/../../TOP/secret/key   loop/secret/key   <d800>   file:secret/key
File:TOP/secret/key   /proc/self/rootTOP/secret/key   /proc/thread-self/rootTOP/secret/key
/proc/self/task/../rootTOP/secret/key   se<301>cret/key   s<e9>cret/key
nope/../secret/key   secret/nope/../key   deep/up/deep/up/secret/key   <202e>secret/key
./~/key   .//./~//key   way//./key   deep/../way/key   TOP/deep/up/way/key   way/<200b>key
"""

NAMES = "delete_all   DELETE_ALL   delete-all   deleteAll   delete_al   delete_all<20>   delete_<430>ll"


def attempts_of(text):
    """The attempts of a table, separated by three blanks; `<20>` is a character by its number."""
    found = [each for line in text.strip().splitlines() for each in line.split("   ")]
    return [re.sub(r"<([0-9a-f]+)>", lambda number: chr(int(number[1], 16)), each) for each in found]


@pytest.fixture
def top(tmp_path, monkeypatch):
    """A folder with a secret, links to it, and environment variables that name it."""
    for name in ("secret", "src", "deep"):
        (tmp_path / name).mkdir()
    (tmp_path / "secret" / "key").write_text("KEY")
    (tmp_path / "way").symlink_to("secret")
    (tmp_path / "deep" / "up").symlink_to("..")
    (tmp_path / "loop").symlink_to("loop")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "secret"))
    monkeypatch.setenv("PLACE", "secret")
    RAN.clear()
    return tmp_path


def registry_of(*things, permissions=FORBIDDEN):
    registry = ToolRegistry(permissions=permissions, approver=lambda request, context: Always())
    registry.register(*(things or (shell, fetch, cat, delete_all, relay)))
    return registry


ATTEMPTS = [
    *(("shell", {"line": line}) for line in attempts_of(LINES)),
    *(("shell", {"line": ["env", *words]}) for words in (["rm", "x"], ["sh", "-c", "rm x"], ["/bin/rm", "x"])),
    *(("shell", {"line": words}) for words in (["rm -rf x"], ["rm\tx"], [" rm", "x"], ["\nrm", "-f x"], ["rm", ""])),
    *(("shell", {"line": shlex.split(line)}) for line in attempts_of(LISTS)),
    *(("fetch", {"url": url}) for url in (*attempts_of(URLS), ["http://ok.example", "http://evil.example"])),
    *(("cat", {"path": path}) for path in (*attempts_of(PATHS), ["src/a", "secret/key"])),
    *((name, {}) for name in attempts_of(NAMES)),
]


@pytest.mark.parametrize(("name", "arguments"), ATTEMPTS)
def test_no_spelling_bypasses_a_forbid_rule(top, name, arguments):
    """By itself, from inside another tool, and in a batch."""
    registry, arguments = registry_of(), json.loads(json.dumps(arguments).replace("TOP", str(top)))
    results = [
        registry.call_sync(name, arguments),
        registry.call_sync("relay", {"name": name, "arguments": arguments}),
        *asyncio.run(
            registry.dispatch([ToolCall(name, arguments, "1"), ToolCall(name, json.dumps(arguments), "2")])
        ).results,
    ]
    assert RAN == []
    assert all("ran" not in result.text.split() for result in results)


HARMLESS = [
    Rule("bash", f"{word} *", "allow") for word in ("echo", "cat", "printf", "test", "set", ":", "true", "[", "ls")
]


@pytest.mark.parametrize("line", [*attempts_of(LINES), *map(shlex.split, attempts_of(LISTS))], ids=str)
def test_no_spelling_is_allowed_by_rules_for_other_programs(line):
    assert Permissions(HARMLESS).decide(tool_of(shell), {"line": line}).action == "ask"


def test_what_is_not_forbidden_runs(top):
    """So the rows above fail because of the rules."""
    registry = registry_of()
    for name, arguments in [
        *[("shell", {"line": line}) for line in ("ls", "grep 'rm x' f", "git rm x", "echo rm x", "sudo ls")],
        *[
            ("fetch", {"url": url})
            for url in ("http://ok.example", "http://169.254.169.253", "http://11.0.0.1", "path.example/late?")
        ],
        *[("cat", {"path": path}) for path in ("src/a", "secrets/key", "src/secret/key", "secret")],
    ]:
        assert registry.call_sync(name, arguments).text == "ran", arguments


@pytest.mark.parametrize(
    ("change", "names"),
    [
        (lambda tools: tools.renamed({"delete_all": "run_tests", "shell": "a"}), "run_tests a"),
        (lambda tools: tools.prefixed("git"), "git_delete_all git_shell"),
        (lambda tools: tools.renamed({"delete_all": "a"}).prefixed("b").renamed({"b_a": "c"}), "c b_shell"),
        (lambda tools: by_each(tools, lambda x: x.with_spec(name=f"x_{x.name}", permission_arguments={})), ""),
        (lambda tools: by_each(tools, lambda x: x.evolve(spec=x.spec.evolve(name=f"x_{x.name}"))), ""),
    ],
)
def test_no_other_name_bypasses_a_forbid_rule(top, change, names):
    registry = registry_of(relay)
    registry.register(change(StaticToolset("t", [shell, delete_all])))
    for name, arguments in zip((names or "x_delete_all x_shell").split(), ({}, {"line": "rm x"}), strict=True):
        assert registry.call_sync(name, arguments).is_error
        registry.call_sync("relay", {"name": name, "arguments": arguments})
    assert asyncio.run(registry.resolve()).get((names or "x_delete_all").split()[0]) is None
    assert RAN == []


def by_each(tools, change):
    return tools.prepared(lambda context, given: [change(each) for each in given])


@pytest.mark.parametrize(
    "change",
    [
        lambda shown: shown.with_spec(permission=None),
        lambda shown: shown.with_spec(permission="other"),
        lambda shown: shown.evolve(spec=shown.spec.evolve(permission=None), former_permissions=()),
    ],
)
def test_no_other_permission_bypasses_a_forbid_rule(top, change):
    rules = Permissions([Rule("bash", "*", "deny", forbid=True)])
    registry = registry_of(relay, permissions=rules)
    registry.register(StaticToolset("t", [shell]).prepared(lambda context, tools: [change(each) for each in tools]))
    assert registry.call_sync("shell", {"line": "ls"}).is_error
    assert registry.call_sync("relay", {"name": "shell", "arguments": {"line": "ls"}}).text != "ran"
    assert RAN == []


FILE = Reshape(rename={"path": "file"})


@pytest.mark.parametrize(
    ("reshapes", "arguments"),
    [
        ([FILE], {"file": "src/../secret/key"}),
        ([FILE, Reshape(rename={"file": "place"})], {"place": "way/key"}),
        ([Reshape(rename={"path": "mode", "mode": "path"})], {"mode": "secret/key", "path": "r"}),
        ([Reshape(hide={"path": "secret/key"})], {}),
        ([FILE, Reshape(hide={"file": "src/../secret/key"})], {}),
        ([FILE, Reshape(default={"file": "secret/key"})], {}),
        ([Reshape(default={"path": "src/a"}), Reshape(hide={"path": "./secret/key"})], {}),
        ([Reshape(retype={"path": {"type": "string"}})], {"path": "secret/key"}),
    ],
)
@pytest.mark.parametrize(("field", "kind"), [("path", None), ("path", "path"), (None, None)])
def test_no_reshaping_bypasses_a_forbid_rule(top, reshapes, arguments, field, kind):
    """Also for arguments that the model doesn't see."""

    @tool(permission_arguments={} if kind else {"path": "path"})
    def look(path: str, mode: str = "r") -> str:
        RAN.append(path)
        return "ran"

    rules = Permissions([Rule("look", "secret/*", "deny", forbid=True, field=field, kind=kind)], "bypass")
    tools = StaticToolset("t", [look])
    for reshape in reshapes:
        tools = tools.reshaped({"look": reshape})
    registry = registry_of(relay, permissions=rules)
    registry.register(tools)
    assert not rule_problems(rules, asyncio.run(registry.resolve()))
    registry.call_sync("relay", {"name": "look", "arguments": arguments})
    assert registry.call_sync("look", arguments).kind == "denied"
    assert RAN == []
    allowed = ToolRegistry(permissions=rules)
    allowed.register(
        StaticToolset("t", [look]).reshaped({"look": FILE}).reshaped({"look": Reshape(hide={"file": "src/a"})})
    )
    assert allowed.call_sync("look", {}).text == "ran"


def test_what_a_running_tool_asks_for_is_resolved_as_it_resolves_paths(top):
    @tool(permission="cat", permission_arguments={"path": "path"}, work_dir=lambda arguments, context: "secret")
    async def below(path: str, context: ToolContext) -> str:
        await context.ask("cat", ["key"])
        RAN.append(path)
        return "ran"

    assert registry_of(below).call_sync("below", {"path": "../src/a"}).kind == "denied"
    assert registry_of(below).call_sync("below", {"path": "key"}).kind == "denied"
    assert RAN == []


@pytest.mark.parametrize("field", [None, "path"])
@pytest.mark.parametrize("path", ["secret/key", "./secret/key", "way/key", "src/../secret/key", "TOP/secret/key"])
@pytest.mark.parametrize("declared", [{}, {"folder": "path"}, {"folder": "path", "pattern": "text"}])
def test_a_path_from_a_running_tool_is_found_in_any_spelling(top, declared, path, field):
    """For any declared arguments, and any name of the argument in the rule."""

    @tool(permission_arguments=declared)
    async def other(folder: str, pattern: str, context: ToolContext) -> str:
        if not context.allows("cat", folder):
            return "denied"
        await context.ask("cat", [folder])
        RAN.append(folder)
        return "ran"

    @tool(permission_arguments=declared)
    async def asking(folder: str, pattern: str, context: ToolContext) -> str:
        await context.ask("cat", [folder])
        RAN.append(folder)
        return "ran"

    rules = [Rule("cat", "secret/*", "deny", forbid=True, field=field)]
    registry = registry_of(other, asking, permissions=Permissions(rules, "bypass"))
    for name in ("other", "asking"):
        arguments = {"folder": path.replace("TOP", str(top)), "pattern": "x"}
        assert "ran" not in registry.call_sync(name, arguments).text.split()
        assert RAN == []
        assert registry.call_sync(name, {"folder": "src/a", "pattern": "secret/key"}).text == "ran"
        RAN.clear()


LOCAL = """
localhost a.localhost ip6-localhost 127.0.0.1 [::1] 0.0.0.0 [::] [::ffff:127.0.0.1] 127.1 2130706433 0x7f000001
0177.0.0.1 0 \u2460\u2461\u2466.0.0.1 127\u30020\u30020\u30021 127.0.0.1:99
"""


@pytest.mark.parametrize("host", LOCAL.split())
@pytest.mark.parametrize("forbidden", ["localhost", "ip6-localhost", "127.0.0.1", "::1", "0.0.0.0"])
def test_this_machine_is_found_by_each_of_its_names(top, forbidden, host):
    rules = Permissions([Rule("fetch", forbidden, "deny", forbid=True)], "bypass")
    assert registry_of(permissions=rules).call_sync("fetch", {"url": f"http://{host}/"}).kind == "denied"


INNER = [{"address": "x@evil.com"}, [{"a": ["x@evil.com"]}], {"x@evil.com": 1}, "x@evil.com"]
INNER += [text for value in INNER[:3] for text in (json.dumps(value), f"\ufeff {json.dumps(json.dumps(value))}")]


@pytest.mark.parametrize("to", INNER)
@pytest.mark.parametrize("field", [None, "to"])
def test_a_text_inside_of_a_value_is_found(top, to, field):
    """Also in a text that is JSON, and by a rule that names the argument."""

    @tool(permission_arguments={} if field else {"to": "text"})
    def mail(to: str | dict | list) -> str:
        return "ran"

    rules = Permissions([Rule("mail", "*@evil.com", "deny", forbid=True, field=field)], "bypass")
    assert registry_of(mail, permissions=rules).call_sync("mail", {"to": to}).kind == "denied"
    assert registry_of(mail, permissions=rules).call_sync("mail", {"to": {"address": "x@ok.com"}}).text == "ran"


@pytest.mark.parametrize("url", ["http://evil.example/x", "HTTP://a.EVIL.example.", "http://[64:ff9b::10.1.2.3]"])
def test_a_url_that_a_running_tool_asks_for_counts_by_its_host(top, url):
    @tool
    async def get(url: str, context: ToolContext) -> str:
        await context.ask("fetch", [url])
        return "ran"

    assert registry_of(get).call_sync("get", {"url": url}).kind == "denied"
    assert registry_of(get).call_sync("get", {"url": "http://ok.example"}).text == "ran"


@pytest.mark.parametrize("later", [Rule("*", "*", "allow"), Rule("cat", "*", "allow", kind="text")])
def test_nothing_that_is_added_later_beats_a_forbid_rule(top, later):
    registry = registry_of(permissions=FORBIDDEN.with_rules(later))
    assert registry.call_sync("cat", {"path": "secret/key"}).kind == "denied"
    for mode in ("default", "accept_edits", "bypass"):
        registry.permissions = FORBIDDEN.with_mode(mode)
        assert registry.call_sync("cat", {"path": "secret/key"}).kind == "denied"
    assert RAN == []


ALTERED = ["secret/key", "way/key", "delete_all", "*", "bypass", None, True, [], {}, {"path": "secret/key"}, ["*"]]


def test_no_altered_pending_call_bypasses_a_forbid_rule(top):
    """Replaces each value of its unsigned JSON in turn."""
    rules = FORBIDDEN.with_rules(Rule("cat", "src/*", "ask")).with_mode("default")

    async def attempts():
        registry = registry_of(permissions=rules)
        outcome = await registry.dispatch([ToolCall("cat", {"path": "src/a"}, "1")], approver=ask_later)
        text, tried = outcome.pending.dumps(), 0
        for place in places_in(json.loads(text)):
            for value in ALTERED:
                try:
                    pending = PendingCalls.loads(json.dumps(altered(json.loads(text), place, value)))
                    await registry.resume(pending, {each.id: Once() for each in pending})
                except PendingError:
                    pass
                tried += 1
        return tried

    assert asyncio.run(attempts()) > 200
    assert set(RAN) == {"src/a"}


def places_in(value, place=()):
    yield place
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from places_in(item, (*place, key))


def altered(data, place, value):
    if not place:
        return value
    data[place[0]] = altered(data[place[0]], place[1:], value)
    return data


@pytest.mark.parametrize(
    ("question", "facts"),
    [
        ("call", {"name": "cat", "arguments": {"path": "secret/key"}}),
        ("call", {"name": "cat", "arguments": '{"path": "secret/key"}'}),
        ("call", {"name": "delete_all", "arguments": {}, "permissions": {"mode": "bypass"}, "approver": None}),
        ("ask", {"permission": "cat", "patterns": ["secret/key"]}),
    ],
)
def test_no_executor_bypasses_a_forbid_rule(top, question, facts):
    class Elsewhere:
        async def execute_tool(self, call):
            await call.answer(question, facts)
            if question == "ask":
                RAN.append("allowed")
            return ExecutionResponse(output="")

    registry = registry_of()
    registry.add("executors", "elsewhere", Elsewhere())
    registry.register(Tool.from_schema("report", {"type": "object"}, executor="elsewhere"))
    registry.call_sync("report")
    assert RAN == []


# Encoded arguments, and permission values


def made(**facts):
    return Tool(ToolSpec("probe", **facts))


def decided(called, arguments, *rules):
    return Permissions(rules).decide(called, arguments).action


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"data": {"contentEncoding": "base64"}}},
        {"properties": {"data": {"type": "array", "items": {"contentEncoding": "base64"}}}},
        {"properties": {"data": {"$ref": "#/$defs/Script"}}, "$defs": {"Script": {"contentEncoding": "base64"}}},
        {"properties": {"data": {}}, "anyOf": [{"properties": {"data": {"contentEncoding": "base64"}}}]},
    ],
)
@pytest.mark.parametrize("arguments", [{"permission_arguments": {"data": "command"}}, {}])
def test_what_comes_as_base64_is_unreadable(schema, arguments):
    called = made(input_schema={"type": "object", **schema}, **arguments)
    for rule in (
        Rule("probe", "rm *", "deny", field="data"),
        Rule("probe", "rm *", "deny", field="data", kind="command"),
    ):
        assert decided(called, {"data": "cm0geA=="}, rule) == "deny"
        assert policy_of(Permissions([rule]), called).conditions is None
    assert decided(called, {"data": "cm0geA=="}, Rule("probe", "*", "ask"), Rule("probe", "cm*", "allow")) == "ask"
    other = made(input_schema={"type": "object", "properties": {**schema["properties"], "a": {}}})
    assert decided(other, {"data": "cm0geA==", "a": "x"}, Rule("probe", "rm *", "deny", field="a")) == "allow"


def test_what_a_tool_decodes_for_rules_is_read():
    schema = {"type": "object", "properties": {"data": {"contentEncoding": "base64"}}}
    options = {"permission_arguments": {"data": "command"}, "permission_values": lambda *_: {"data": "rm x"}}
    called = Tool.from_schema("probe", schema, lambda arguments: "", **options)
    for words, action in (("rm *", "deny"), ("ls *", "allow")):
        rules = Rule("probe", "*", "allow"), Rule("probe", words, "deny")
        assert decided(called, {"data": "cm0geA=="}, *rules) == action


@pytest.mark.parametrize("path", ["./~/key", ".//././/~/key"])
def test_a_home_folder_that_pathlib_finds_after_a_dot_counts(tmp_path, monkeypatch, path):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    assert Path(path).expanduser() == tmp_path / "home" / "key"
    called = made(permission_arguments={"path": "path"})
    assert decided(called, {"path": path}, Rule("probe", f"{tmp_path}/home/*", "deny")) == "deny"
    rules = Rule("probe", "*", "ask"), Rule("probe", f"{tmp_path}/~/*", "allow")
    assert decided(called, {"path": path}, *rules) == "ask"
    assert decided(called, {"path": "./a/~/key"}, Rule("probe", "*", "ask"), Rule("probe", "a/*", "allow")) == "allow"

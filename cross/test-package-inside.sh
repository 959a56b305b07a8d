#!/bin/bash
# The part of cross/test-package.sh that runs under the booted systemd.
set -euo pipefail
cd /root
step() { printf '== %s (%ss)\n' "$*" "$SECONDS"; }
trap 'code=$?; [ $code = 0 ] || { set +e; echo "FAILED in line $LINENO"; systemctl status --no-pager -l hencedge-agent hencedge-evaluator; journalctl --no-pager -n 40; tail -n 30 /console; systemctl --no-pager status systemd-journald | head -5; dmesg 2>/dev/null | tail -3; }; exit $code' EXIT
must() { "$@" || { echo "failed: $*"; return 1; }; }
must_not() { if "$@"; then echo "did not fail: $*"; return 1; fi; }
await() { # SECONDS COMMAND...: waits until it succeeds
  local n=$(($1 * 10)); shift
  until "$@" >/dev/null 2>&1; do n=$((n - 1)); [ $n -gt 0 ] || { echo "never: $*"; return 1; }; sleep 0.1; done
}
prop() { systemctl show -P "$2" "hencedge-$1"; }
export DEBIAN_FRONTEND=noninteractive
getent hosts localhost >/dev/null || echo '127.0.0.1 localhost' >>/etc/hosts

step install
must dpkg -i /one.deb
for role in agent evaluator keyholder; do
  must systemctl is-enabled --quiet "hencedge-$role"
  must_not systemctl is-active --quiet "hencedge-$role" # nothing is configured
  must getent passwd "hencedge-$role" >/dev/null
  must test "$(stat -c '%U %a' /var/lib/hencedge/$role)" = "hencedge-$role 700"
done
must test "$(stat -c '%U %a' /etc/hencedge/credentials)" = "root 700"
must grep -q __complete /usr/share/bash-completion/completions/hencedge
must bash -n /usr/share/bash-completion/completions/hencedge
must zcat /usr/share/man/man1/hencedge-agent.1.gz >/dev/null
if hencedge service install >/dev/null 2>refusal; then echo "a second unit was installed"; exit 1; fi
must grep -q 'comes from a package' refusal

# Pastes the blocks of docs/install.md as a reader would, from the broker to the reading.
# The installation itself was above. The last command would never end.
awk '/^## /{on = /From the package to a decrypted reading/} /^### 9/{on = 0} /^```/{inside = on && /sh$/; next} inside' /install.md >pasted
must grep -qx 'sudo apt install -y ./hencedge_\*_$(dpkg --print-architecture).deb mosquitto openssl' pasted
must grep -qx 'sudo bash' pasted
must grep -qx 'hencedge results watch -c keyholder.yaml' pasted
sed -i -e '/^sudo /d' -e 's/^hencedge agent status$/await 20 &/' -e 's/^hencedge results watch.*/timeout 60 & --format ndjson --count 2/' pasted
cloud= # docs/install.md sets it
step "docs/install.md, $(grep -c . pasted) lines"
. ./pasted
must test "$PWD" = /root/holder
must test -n "$cloud"

step 'what it has made'
for pair in agent:devices evaluator:gpu; do
  install -D -m 644 "/usr/share/hencedge/drop-ins/${pair#*:}.conf" "/etc/systemd/system/hencedge-${pair%:*}.service.d/${pair#*:}.conf"
done
systemctl daemon-reload
must systemd-analyze verify --man=no hencedge-agent.service hencedge-evaluator.service 2>said
must_not grep . said # with all drop-ins
must systemd-analyze verify --man=no hencedge-keyholder.service 2>said
must_not grep . said
must systemctl restart hencedge-agent hencedge-evaluator
for pair in agent:devices evaluator:gpu; do
  must test "$(prop "${pair%:*}" PrivateDevices)" = no
done
must_not hencedge agent check -c /etc/hencedge/agent.yaml 2>said
must grep -q 'credentials' said
must test "$(stat -c '%U %a' /var/lib/hencedge/agent/signing.key)" = "hencedge-agent 600"
must await 20 hencedge agent status
hencedge agent status
hencedge evaluator status
await 20 sh -c "hencedge service status | grep -q 'says *connected'"
hencedge service status
must test "$(prop agent NRestarts)" = 0
pid=$(prop agent MainPID)
must grep -q "Max core file size *0 *0" "/proc/$pid/limits"
if (ulimit -l unlimited) 2>/dev/null; then # a container may not be allowed to raise it
  must test "$(awk '/^VmLck/ {print ($2 > 0)}' "/proc/$pid/status")" = 1
else
  echo 'not checked: this systemd may not raise the limit on locked memory'
fi
must test "$(awk '/^(CapEff|CapBnd)/ {s = s $2} END {print s}' "/proc/$pid/status")" = 00000000000000000000000000000000
must test "$(awk '/^(Seccomp|NoNewPrivs):/ {s = s $2} END {print s}' "/proc/$pid/status")" = 12
must journalctl -q --no-pager -u hencedge-agent -p info -g 'agent is ready'

step 'the key holder as a service'
results=/var/lib/hencedge/keyholder/results.ndjson
await 30 test -s $results
must test "$(stat -c '%U %a' $results)" = "hencedge-keyholder 600"
must grep -q '"program":"memory-mean"' $results
await 20 sh -c "systemctl show -P StatusText hencedge-keyholder | grep -q 'connected; .* since the start'"
holder=$(prop keyholder MainPID)
as_holder() { setpriv --reuid hencedge-keyholder --regid hencedge-keyholder --clear-groups "$@"; }
must_not as_holder sh -c ": </proc/$holder/mem" 2>/dev/null # not even for another process of its user
must_not as_holder sh -c ": </proc/$holder/environ" 2>/dev/null
if (ulimit -l unlimited) 2>/dev/null; then
  must test "$(awk '/^VmLck/ {print ($2 > 0)}' "/proc/$holder/status")" = 1
fi
must test "$(awk '/^(CapEff|CapBnd)/ {s = s $2} END {print s}' "/proc/$holder/status")" = 00000000000000000000000000000000
mv $results $results.1
must systemctl reload hencedge-keyholder
await 20 test -s $results
must test "$(prop keyholder MainPID)" = "$holder"
kill -KILL "$holder"
await 20 sh -c '[ "$(systemctl show -P NRestarts hencedge-keyholder)" = 1 ] && systemctl is-active --quiet hencedge-keyholder'
lines=$(wc -l <$results)
await 20 sh -c "[ \$(wc -l <$results) -gt $lines ]"
must_not journalctl -q --no-pager -u hencedge-keyholder -g '"values"' # nothing decrypted in the journal

step 'doctor, as the agent'
setpriv --reuid hencedge-agent --regid hencedge-agent --clear-groups hencedge doctor --agent /etc/hencedge/agent.yaml --offline --walk /etc,/home,/root/holder,/run,/srv,/var | tee report || true
must grep -q 'ok    secrets on this board' report
must grep -q 'ok    keys that this user can read: no secret key in .* hencedge-agent can read' report
must grep -q 'ok    agent files that it trusts: nobody but root' report
must grep -q 'ok    agent that runs: version v0.0.1, memory: no core dumps, no ptrace' report

must grep -q "public_key: $board" <(setpriv --reuid hencedge-agent --regid hencedge-agent --clear-groups hencedge agent enroll -c /etc/hencedge/agent.yaml)

step reload
sed -i 's/interval: 100ms/interval: 50ms/' /etc/hencedge/agent.yaml
must systemctl reload hencedge-agent
await 20 sh -c "hencedge agent status | grep -q 'last reload *asked for, .*good'"
must test "$(prop agent MainPID)" = "$pid"
cp /etc/hencedge/agent.yaml good.yaml
sed -i 's/interval: 50ms/interval: soon/' /etc/hencedge/agent.yaml
must_not systemctl reload hencedge-agent
must journalctl -q --no-pager -u hencedge-agent -g 'agent.yaml:.*interval' >/dev/null
must systemctl is-active --quiet hencedge-agent
kill -HUP "$pid" # and refused by the agent itself
await 20 sh -c "systemctl show -P StatusText hencedge-agent | grep -q refused"
must test "$(prop agent MainPID)" = "$pid"
cp good.yaml /etc/hencedge/agent.yaml

step 'a crash and a hang'
kill -KILL "$pid"
await 20 sh -c '[ "$(systemctl show -P NRestarts hencedge-agent)" = 1 ] && systemctl is-active --quiet hencedge-agent'
mkdir -p /etc/systemd/system/hencedge-agent.service.d
printf '[Service]\nWatchdogSec=2s\nRestartSec=100ms\n' >/etc/systemd/system/hencedge-agent.service.d/test.conf
systemctl daemon-reload && systemctl restart hencedge-agent
sleep 3 # longer than the watchdog waits: the agent feeds it
must test "$(prop agent NRestarts)" = 0
kill -STOP "$(prop agent MainPID)"
await 30 sh -c '[ "$(systemctl show -P NRestarts hencedge-agent)" -ge 1 ] && systemctl is-active --quiet hencedge-agent'
must journalctl -q --no-pager -u hencedge-agent -g 'Watchdog timeout' >/dev/null

step 'the broker is away'
systemctl stop mosquitto
await 20 sh -c "hencedge agent status | grep -q 'not connected'"
await 20 sh -c "hencedge agent status | grep -q 'queue *[1-9].* on disk'"
must systemctl restart hencedge-agent # what waits is on disk: nothing to drain
must test "$(prop agent Result)" = success
must systemctl reload hencedge-agent
await 20 sh -c "hencedge agent status | grep -q 'queue *[1-9].* on disk'"
systemctl start mosquitto
await 90 sh -c "hencedge agent status | grep -q 'queue *[0-2] windows'"
must sh -c "hencedge agent status | grep -q 'lost: 0 dropped, 0 expired, 0 damaged'"

step 'an invalid configuration is not retried'
sed -i 's/interval: 50ms/interval: soon/' /etc/hencedge/agent.yaml
must_not systemctl restart hencedge-agent
sleep 1
must test "$(prop agent ActiveState)" = failed
hencedge service status | tee state || true
must grep -q 'configuration is not valid' state
must grep -q 'says *failed: .*agent.yaml:[0-9]*:[0-9]*: ' state
must grep -q 'log *journalctl -u hencedge-agent' state
cp good.yaml /etc/hencedge/agent.yaml
systemctl reset-failed hencedge-agent && must systemctl start hencedge-agent

step 'mistakes'
chmod 644 /var/lib/hencedge/agent/signing.key
must_not systemctl restart hencedge-agent 2>/dev/null
sleep 0.5
must test "$(prop agent ActiveState)" = failed # another start would not help
must journalctl -q --no-pager -u hencedge-agent -g 'run chmod 600' >/dev/null
chmod 600 /var/lib/hencedge/agent/signing.key
install -d -o hencedge-agent -g hencedge-agent -m 700 /srv/spool
sed -i 's|/var/lib/hencedge/agent/spool|/srv/spool|' /etc/hencedge/agent.yaml
must hencedge agent check -c /etc/hencedge/agent.yaml --credentials /etc/hencedge/credentials/hencedge-agent 2>said
must grep -q 'needs ReadWritePaths=/srv' said
printf '[Service]\nReadWritePaths=/srv/spool\n' >/etc/systemd/system/hencedge-agent.service.d/spool.conf
systemctl daemon-reload
must hencedge agent check -c /etc/hencedge/agent.yaml --credentials /etc/hencedge/credentials/hencedge-agent 2>said
must_not grep -q ReadWritePaths said
touch marker
must systemctl restart hencedge-agent
await 20 sh -c "hencedge agent status | grep -q ' on disk; lost: 0'"
await 20 test /srv/spool -nt marker # windows come and go
rm /etc/systemd/system/hencedge-agent.service.d/spool.conf
systemctl daemon-reload
cp good.yaml /etc/hencedge/agent.yaml
chmod 600 /etc/hencedge/agent.yaml # as a strict umask would
must hencedge agent check -c /etc/hencedge/agent.yaml --credentials /etc/hencedge/credentials/hencedge-agent 2>said
must grep -q 'hencedge-agent cannot read /etc/hencedge/agent.yaml: chmod 644' said
must_not systemctl restart hencedge-agent 2>/dev/null
must journalctl -q --no-pager -u hencedge-agent -g 'it holds no secrets: chmod 644' >/dev/null
chmod 644 /etc/hencedge/agent.yaml
await 20 systemctl is-active --quiet hencedge-agent
mv /etc/hencedge/agent-keys /etc/hencedge/away
must_not systemctl restart hencedge-agent 2>/dev/null
must journalctl -q --no-pager -u hencedge-agent -g 'keys.public_key' >/dev/null
mv /etc/hencedge/away /etc/hencedge/agent-keys # and now it starts by itself
await 20 systemctl is-active --quiet hencedge-agent
sed 's/cred:broker/env:HOME/' /etc/hencedge/agent.yaml >/etc/hencedge/second.yaml
must_not setpriv --reuid hencedge-agent --regid hencedge-agent --clear-groups hencedge agent run -c /etc/hencedge/second.yaml 2>said
rm /etc/hencedge/second.yaml
cat said
must grep -q 'is in use' said # a second agent
systemctl stop hencedge-agent
mv /etc/hencedge/agent.yaml /etc/hencedge/away
must_not hencedge service start 2>said
must grep -q 'agent.yaml does not exist' said
mv /etc/hencedge/away /etc/hencedge/agent.yaml
must hencedge service start

step 'an upgrade that finds the disk full'
pid=$(prop agent MainPID)
mount -t tmpfs -o size=16k tmpfs /usr/share/hencedge
must_not dpkg -i /two.deb 2>said
must grep -q 'No space left' said
must test "$(prop agent MainPID)" = "$pid"
await 20 hencedge agent status # healthy once it is connected
umount /usr/share/hencedge
must dpkg -i /one.deb
must systemctl is-active --quiet hencedge-agent

step 'upgrade with a configuration that is not good: the version before goes on'
pid=$(prop agent MainPID)
sed -i 's/interval: 50ms/interval: soon/' /etc/hencedge/agent.yaml
must dpkg -i /two.deb 2>said
must grep -q 'agent.yaml:.*interval' said
must grep -q 'the version before goes on' said
must test "$(prop agent MainPID)" = "$pid"
must sh -c "hencedge agent status | grep -q 'version v0.0.1'"
cp good.yaml /etc/hencedge/agent.yaml
must dpkg -i /one.deb # and back

step upgrade
echo '# mine' >>/etc/default/hencedge-agent
pid=$(prop agent MainPID)
must dpkg -i /two.deb
must test "$(prop agent MainPID)" != "$pid"
must systemctl is-active --quiet hencedge-agent
must grep -q '# mine' /etc/default/hencedge-agent
must systemctl is-active --quiet hencedge-keyholder
lines=$(wc -l <$results)
await 60 sh -c "[ \$(wc -l <$results) -gt $lines ]"
hencedge version | head -n 1

step 'docs/install.md: the live page'
awk '/^### /{on = /9. The live page/} /^## /{on = 0} /^```/{inside = on && /sh$/; next} inside' /install.md >pasted
must grep -qx 'hencedge console open -c /etc/hencedge/keyholder.yaml' pasted
. ./pasted >said
must grep -q '^http://127.0.0.1:9470/#login=' said
await 20 sh -c "systemctl show -P StatusText hencedge-keyholder | grep -q 'connected; .* since the start'"
await 30 sh -c 'hencedge results query -c /etc/hencedge/keyholder.yaml --format ndjson | grep -q memory-mean'
# The page as a browser would ask for it: the link logs in, and a result is told live.
page=http://127.0.0.1:9470
ask() { curl -sS --max-time 60 -b cookies -c cookies -H 'Content-Type: application/json' "$@"; }
if command -v curl >/dev/null; then
  must sh -c "curl -sS $page/ | grep -q '<html'"
  must ask -f -d "{\"secret\":\"$(sed -n 's/.*#login=//p' said)\"}" "$page/api/login" >login.json
  must grep -q '"role":"holder"' login.json
  must sh -c "curl -sS --max-time 60 -b cookies -N $page/api/live | grep -m 1 -q memory-mean"
else
  echo 'not checked: the page, without curl'
fi

step 'remove keeps, purge forgets'
cp /usr/bin/hencedge /root/hencedge
must dpkg -r hencedge
must_not systemctl is-active --quiet hencedge-agent
must test -e /var/lib/hencedge/agent/signing.key
must test -e /etc/default/hencedge-agent
must_not test -e /usr/bin/hencedge
must_not /root/hencedge service install 2>said
must grep -q 'systemctl unmask hencedge-agent' said
must dpkg -i /two.deb
must systemctl start hencedge-agent
mkdir /var/lib/hencedge/keys # a directory of somebody else
must dpkg -P hencedge
must_not test -e /var/lib/hencedge/agent
must_not test -e /var/lib/hencedge/evaluator
must test -e /var/lib/hencedge/keyholder/keys/keyset.json # and the results
must test -e $results
rm -r /var/lib/hencedge/keyholder
must rmdir /var/lib/hencedge/keys /var/lib/hencedge
must_not test -e /etc/default/hencedge-agent
must test -e /etc/hencedge/agent.yaml # the operator's own
must_not systemctl is-enabled --quiet hencedge-agent

step 'without the package'
must_not /root/hencedge service install 2>said
must grep -q 'sees nothing below /root: copy it to /usr/local/bin' said
cp /root/hencedge /usr/local/bin/hencedge && hash -r
(umask 077; must hencedge service install --drop-in credentials 2>said)
must test "$(stat -c '%U %a' /var/lib/hencedge)" = 'root 755'
must grep -q 'credentials.conf exists and is not changed' said
must cmp /etc/systemd/system/hencedge-agent.service <(hencedge service install --show)
must systemctl is-enabled --quiet hencedge-agent
must test "$(stat -c '%U %a' /var/lib/hencedge/agent)" = "hencedge-agent 700"
must_not hencedge service install 2>/dev/null # there is one already
must hencedge service start
await 20 hencedge agent status # healthy once it is connected
must hencedge service restart
must hencedge service status
must hencedge service stop
must_not hencedge service status
must dpkg -i /two.deb 2>said # whose unit stays hidden
must grep -q 'hides the unit of the package' said
must hencedge service uninstall
must_not test -e /etc/systemd/system/hencedge-agent.service
must systemctl is-enabled --quiet hencedge-agent # the package's
must dpkg -P hencedge
must_not hencedge service start 2>/dev/null
must hencedge service install
must hencedge service uninstall >said
must grep -q 'is removed' said
must_not test -e /etc/systemd/system/hencedge-agent.service
must_not hencedge service start 2>/dev/null

step 'the package of the evaluator alone'
rm /usr/local/bin/hencedge && hash -r
must dpkg -i /two.deb
must dpkg -i /evaluator.deb # takes the place of the other
must test "$(dpkg-query -W -f '${Status}' hencedge-evaluator)" = 'install ok installed'
must_not test "$(dpkg-query -W -f '${Status}' hencedge)" = 'install ok installed'
must systemctl is-enabled --quiet hencedge-evaluator
must test -d /var/lib/hencedge/evaluator
must sh -c "hencedge version | grep -qx 'built for evaluators only'"
must_not hencedge keys new --params edge12-d1 --dir /root/none 2>/dev/null
must_not hencedge results decrypt 2>/dev/null
must hencedge evaluator check --no-keys -c /etc/hencedge/evaluator.yaml
must_not grep -qaF hencedge/henc/secret. /usr/bin/hencedge
must sh -c "zcat /usr/share/doc/hencedge-evaluator/third-party-licenses.gz | grep -q 'Eclipse Public License - v 2.0'"
must dpkg -P hencedge # what the new package uses stays
must test -d /var/lib/hencedge/evaluator
must systemctl is-enabled --quiet hencedge-evaluator
must dpkg -P hencedge-evaluator
must_not test -e /usr/bin/hencedge
step 'all good'

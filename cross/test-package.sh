#!/usr/bin/env bash
# Installs, configures, starts, reloads, upgrades, removes and purges the Debian
# package under a booted systemd. It executes the blocks of docs/install.md from the package
# to a decrypted reading. It has namespaces of its own and an overlay over this machine's
# root, so that nothing here changes.
# usage: cross/test-package.sh DEB NEWER-DEB      (as root; the package of the evaluator
#                              alone lies beside NEWER-DEB)
#        cross/test-package.sh --shell FILE...    boots the same system and opens a
#                              shell with these files in /root, to try docs/install.md
#                              by hand. There is no network, and all changes are gone
#                              when the shell ends.
# TEST_PACKAGE_ROOT names another root than this machine's, for example one that debootstrap
# made, which is like a fresh installation. lintian checks the package if it is installed.
# If systemd cannot be booted, the script says so. That is a failure if
# HENCEDGE_TEST_REQUIRE names "systemd-boot".
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)

cannot() {
  case ,${HENCEDGE_TEST_REQUIRE:-}, in *,systemd-boot,*) echo "test-package: $1" >&2; exit 1 ;; esac
  echo "test-package: NOT RUN: $1" >&2
  exit 0
}

if [ "${1:-}" != --inside ]; then
  usage='usage: cross/test-package.sh DEB NEWER-DEB, or --shell FILE...'
  shell=
  if [ "${1:-}" = --shell ]; then
    shell=yes
    shift
    files=$(readlink -e "${@:?$usage}")
  else
    deb=$(readlink -f "${1:?$usage}")
    newer=$(readlink -f "${2:?$usage}")
    evaluator=$(dirname "$newer")/$(basename "$newer" | sed 's/^hencedge_/hencedge-evaluator_/')
  fi
  if [ -z "$shell" ] && command -v lintian >/dev/null; then
    lintian --allow-root --fail-on error,warning "$newer" "$evaluator" || { echo "test-package: see cross/package/lintian-overrides" >&2; exit 1; }
  fi
  [ "$(id -u)" = 0 ] || cannot "needs root"
  for tool in /lib/systemd/systemd unshare mosquitto openssl; do
    PATH=$PATH:/usr/sbin command -v "$tool" >/dev/null || cannot "$tool is not there"
  done
  work=$(mktemp -d)
  # A control group of its own, which becomes the root of the group namespace.
  group=
  hierarchy=/sys/fs/cgroup
  [ -e "$hierarchy/cgroup.procs" ] || hierarchy=/sys/fs/cgroup/unified
  booted=
  cleanup() {
    if [ -n "$booted" ]; then
      kill -9 "$booted" 2>/dev/null || true
      wait "$booted" 2>/dev/null || true
    fi
    for _ in $(seq 50); do # as long as somebody looks into it, a search of /tmp for example
      ! mountpoint -q "$work" || umount -R "$work" 2>/dev/null || sleep 0.1
    done
    ! mountpoint -q "$work" || umount -R -l "$work"
    if [ -n "$group" ]; then
      for _ in $(seq 20); do # its last processes may not have ended yet
        find "$group" -depth -type d -exec rmdir {} \; 2>/dev/null || true
        [ -e "$group" ] || break
        sleep 0.1
      done
    fi
    rm -rf "$work"
  }
  trap cleanup EXIT
  if ! mkdir "$hierarchy/hencedge-test-$$" 2>/dev/null; then cannot "no control group can be made"; fi
  group=$hierarchy/hencedge-test-$$
  mount -t tmpfs tmpfs "$work" 2>/dev/null || cannot "nothing can be mounted"
  mkdir "$work"/{upper,tmp,root}
  mount -t overlay overlay -o "lowerdir=${TEST_PACKAGE_ROOT:-/},upperdir=$work/upper,workdir=$work/tmp" "$work/root" 2>/dev/null || cannot "no overlay can be mounted"
  # A shell joins the group, then replaces itself with unshare.
  boot="echo \$\$ >$group/cgroup.procs && exec unshare --cgroup --mount --pid --fork --uts --ipc --net --kill-child \
    bash '$here/test-package.sh' --inside '$work/root' $shell"
  if [ -n "$shell" ]; then
    xargs -d '\n' cp -t "$work/root/root" <<<"$files"
    bash -c "$boot" &
    booted=$!
    for _ in $(seq 300); do
      [ ! -e "$work/upper/result" ] || break
      kill -0 "$booted" 2>/dev/null || break
      sleep 0.1
    done
    init=$(pgrep -P "$booted" || true)
    if [ ! -e "$work/upper/result" ] || [ -z "$init" ]; then
      tail -n 20 "$work/upper/console" >&2 2>/dev/null || true
      cannot "systemd did not boot"
    fi
    echo "test-package: systemd runs; the files are in /root; leave with exit" >&2
    nsenter --target "$init" --mount --uts --ipc --net --pid --cgroup \
      env -i HOME=/root TERM="${TERM:-dumb}" PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
      bash -c 'cd && exec bash -i' || true
    exit 0
  fi
  cp "$here/test-package-inside.sh" "$work/root/inside.sh"
  cp "$here/../docs/install.md" "$work/root/install.md"
  cp "$deb" "$work/root/one.deb"
  cp "$newer" "$work/root/two.deb"
  cp "$evaluator" "$work/root/evaluator.deb"
  code=0
  timeout -k 5 "${TEST_PACKAGE_TIMEOUT:-420}" bash -c "$boot" || code=$?
  if [ ! -e "$work/upper/result" ]; then
    tail -n 20 "$work/upper/console" >&2 2>/dev/null || true
    cannot "systemd did not boot (exit code $code)"
  fi
  cat "$work/upper/output"
  exit "$(cat "$work/upper/result")"
fi

# From here on inside the namespaces, as the process that becomes PID 1.
root=$2
shell=${3:-}
mount --make-rprivate /
cd "$root"
mount -t proc proc proc
mount -t sysfs -o ro sysfs sys 2>/dev/null || mount --rbind /sys sys
umount -R sys/fs/cgroup 2>/dev/null || true
mount -t cgroup2 cgroup2 sys/fs/cgroup
mount -t tmpfs -o mode=755 tmpfs run
mount -t tmpfs tmpfs tmp
mount -t tmpfs -o mode=755 tmpfs dev
for d in "null 1 3" "zero 1 5" "full 1 7" "random 1 8" "urandom 1 9" "tty 5 0" "ptmx 5 2"; do
  read -r name major minor <<<"$d"
  mknod -m 666 "dev/$name" c "$major" "$minor"
done
mkdir dev/{shm,pts,mqueue,hugepages}
mount -t tmpfs tmpfs dev/shm
mount -t devpts -o newinstance,ptmxmode=666 devpts dev/pts
mount -t mqueue mqueue dev/mqueue
ln -s /proc/self/fd dev/fd && ln -s fd/0 dev/stdin && ln -s fd/1 dev/stdout && ln -s fd/2 dev/stderr
touch console dev/console && mount --bind console dev/console
ip link set lo up 2>/dev/null || true
# Only what the services need is started. Installed services may start. The index of
# manual pages is not rebuilt at every step.
rm -f usr/sbin/policy-rc.d var/lib/man-db/auto-update
: >etc/fstab
rm -rf var/log/journal
rm -rf etc/systemd/system
mkdir -p etc/systemd/system/multi-user.target.wants
for u in systemd-binfmt systemd-modules-load systemd-sysctl systemd-udevd systemd-udev-trigger systemd-remount-fs systemd-networkd systemd-resolved \
  systemd-timesyncd systemd-logind systemd-journal-flush dbus getty@tty1 console-getty; do
  ln -s /dev/null "etc/systemd/system/$u.service"
done
for u in dev-hugepages.mount dev-mqueue.mount sys-kernel-debug.mount sys-kernel-tracing.mount sys-kernel-config.mount sys-fs-fuse-connections.mount proc-sys-fs-binfmt_misc.automount; do
  ln -s /dev/null "etc/systemd/system/$u"
done
inside='/bin/bash /inside.sh'
after='sync; echo "$EXIT_STATUS" >/result; kill -s RTMIN+14 1'
if [ -n "$shell" ]; then inside=/bin/true after='echo 0 >/result'; fi
cat >etc/systemd/system/hencedge-test.service <<UNIT
[Unit]
After=multi-user.target
[Service]
Type=oneshot
Environment=HOME=/root
StandardOutput=file:/output
StandardError=inherit
ExecStart=$inside
ExecStopPost=/bin/sh -c '$after'
UNIT
ln -s ../hencedge-test.service etc/systemd/system/multi-user.target.wants/
# A real root of its own, because a chroot does not allow the mount namespaces of services.
mkdir -p old
pivot_root . old
exec env -i TEST_PACKAGE_LOG="${TEST_PACKAGE_LOG:-warning}" PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin container=hencedge-test \
  /bin/sh -c 'umount -l /old && mount --make-rshared / && exec /lib/systemd/systemd --system --unit=multi-user.target --log-target=journal --log-level=${TEST_PACKAGE_LOG:-warning} --show-status=no' </dev/null >/console 2>&1

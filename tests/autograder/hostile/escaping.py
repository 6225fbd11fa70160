# Code that tries to do something outside its sandbox.

# %% network
import socket, urllib.request
for family in (socket.AF_INET, socket.AF_INET6, socket.AF_UNIX):
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW):
        try:
            sock = socket.socket(family, kind)
            sock.settimeout(0.2)
            sock.connect(("127.0.0.1", @PORT@))
            sock.send(b"owned")
        except Exception as error:
            print(type(error).__name__)
def total(x): return urllib.request.urlopen("http://127.0.0.1:@PORT@").read()

# %% network-below-python
import ctypes, struct
libc = ctypes.CDLL(None)
fd = libc.socket(2, 1, 0)
address = struct.pack("=HH4s8x", 2, @PORT@ >> 8 | (@PORT@ & 255) << 8, bytes([127, 0, 0, 1]))
print(fd, libc.connect(fd, address, len(address)), libc.write(fd, b"owned", 5))

# %% abstract-socket
import socket
def total(x):
    sock = socket.socket(socket.AF_UNIX)
    sock.connect("\0minitx-hostile-@PORT@")
    sock.send(b"owned")

# %% programs
import os, subprocess
for attempt in (lambda: subprocess.run(["touch", "@OUTSIDE@/owned"]), lambda: os.system("touch @OUTSIDE@/owned"),
                lambda: os.execv("/bin/sh", ["sh", "-c", "touch @OUTSIDE@/owned"]), lambda: os.posix_spawn("/bin/touch", ["touch", "@OUTSIDE@/owned"], {})):
    try:
        print(attempt())
    except Exception as error:
        print(type(error).__name__)
!touch @OUTSIDE@/owned

# %% worker-processes
import multiprocessing
def touch(_): open("@OUTSIDE@/owned", "w")
def total(x): return multiprocessing.get_context("fork").Pool(2).map(touch, [1])

# %% program-from-memory
import ctypes, os
libc = ctypes.CDLL(None)
fd = libc.syscall(319, b"x", 0)
print(fd, libc.syscall(322, fd, b"", None, None, 0x1000))
with open("a.out", "wb") as file:
    file.write(b"#!/bin/sh\ntouch @OUTSIDE@/owned\n")
os.chmod("a.out", 0o6755)
os.execv("./a.out", ["a.out"])

# %% writing-outside
import os
for place in ("@OUTSIDE@/owned", "/tmp/../@OUTSIDE@/owned", "/owned", "/dev/shm/owned", "/usr/lib/owned", "/etc/owned", "/work/owned"):
    try:
        open(place, "w").write("owned")
    except OSError as error:
        print(type(error).__name__)

# %% writing-into-the-libraries
import os, numpy, site, sysconfig
places = [numpy.__file__, *sysconfig.get_paths().values()]
for place in places:
    for path in (place, os.path.join(place, "owned.pth"), os.path.join(place, "sitecustomize.py")):
        for act in (lambda: open(path, "a"), lambda: os.unlink(path), lambda: os.chmod(path, 0o777), lambda: os.rename(path, path + "x"), lambda: os.utime(path)):
            try:
                act()
                print("DID", path)
            except OSError:
                pass

# %% mounts
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
for flags in (32, 4096, 32 | 4096, 16384 | (1 << 18)):
    for target in (b"/", b"/usr", b"/tmp", b"/dev/null"):
        print(libc.mount(b"tmpfs", target, b"tmpfs", flags, None), libc.umount2(target, 2), libc.pivot_root(b".", b"."))

# %% namespaces
import ctypes
libc = ctypes.CDLL(None)
for flag in (0x10000000, 0x00020000, 0x20000000, 0x40000000, 0x02000000):
    print(libc.unshare(flag), libc.syscall(56, flag | 17, 0, 0, 0, 0), libc.syscall(435, 0, 88))
if libc.unshare(0x10000000) == 0:
    open("/proc/self/uid_map", "w").write("0 0 1")

# %% another-user
import os
for act in (lambda: os.setuid(0), lambda: os.setresuid(0, 0, 0), lambda: os.setgroups([0]), lambda: os.chroot("."), lambda: os.nice(-20), lambda: os.setns(0)):
    try:
        act()
        print("DID")
    except Exception as error:
        print(type(error).__name__)
def total(x): os.chown("@OUTSIDE@", 0, 0)

# %% other-processes-memory
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
for pid in range(1, 500):
    libc.ptrace(16, pid, 0, 0)
    libc.syscall(310, pid, 0, 0, 0, 0, 0)
    libc.syscall(434, pid, 0)
    libc.kill(pid, 9)

# %% kernel-doors
import ctypes
libc = ctypes.CDLL(None)
for number in range(335, 470):
    if number not in (435,):
        libc.syscall(number, 0, 0, 0, 0, 0, 0)
for number in (101, 155, 161, 163, 165, 166, 167, 169, 175, 176, 246, 248, 250, 259, 272, 298, 304, 308, 321, 323):
    libc.syscall(number, 0, 0, 0, 0, 0, 0)

# %% calls-of-another-architecture
import ctypes, mmap
page = mmap.mmap(-1, 4096, prot=7)
page.write(bytes([0xB8, 20, 0, 0, 0, 0xCD, 0x80, 0xC3]))
entry = ctypes.addressof(ctypes.c_char.from_buffer(page))
print(ctypes.CFUNCTYPE(ctypes.c_int)(entry)())

# %% x32-calls
import ctypes
libc = ctypes.CDLL(None)
print(libc.syscall(0x40000000 + 57), libc.syscall(0x40000000 + 520, b"/bin/sh", 0, 0))

# %% limits-raised
import resource
def total(x):
    for what in range(16):
        try:
            resource.setrlimit(what, (-1, -1))
        except (OSError, ValueError):
            pass
    return bytearray(4 << 30)

# %% devices
import os, stat
for name, number in (("sda", 8 << 8), ("mem", (1 << 8) | 1), ("kmsg", (1 << 8) | 11)):
    for act in (lambda: os.mknod(name, 0o666 | stat.S_IFBLK, number), lambda: os.mknod(name, 0o666 | stat.S_IFCHR, number), lambda: os.mkfifo(name), lambda: open("/dev/" + name)):
        try:
            act()
            print("DID")
        except OSError as error:
            print(type(error).__name__)

# %% preloaded-library
import os, ctypes
open("evil.so", "wb").write(b"\x7fELF" + bytes(200))
os.environ["LD_PRELOAD"] = os.path.abspath("evil.so")
os.environ["PYTHONSTARTUP"] = os.path.abspath("evil.so")
ctypes.CDLL(os.path.abspath("evil.so"))

# %% word-from-one-sandbox-to-the-next
import fcntl, os, numpy
file = open(numpy.__file__)
for act in (lambda: fcntl.flock(file, fcntl.LOCK_EX), lambda: fcntl.lockf(file, fcntl.LOCK_SH), lambda: fcntl.fcntl(file, 1024, 0), lambda: os.setxattr(numpy.__file__, "user.x", b"1")):
    try:
        act()
        print("DID")
    except OSError as error:
        print(type(error).__name__)

# %% magics
%cd /
%env SECRET=1
%load /etc/passwd
%run /etc/passwd
%system touch @OUTSIDE@/owned
%%bash
touch @OUTSIDE@/owned

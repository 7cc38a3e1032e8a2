"""A gateway under measurement, for the programs in this folder: starts a build of it with settings of its own, loads it, and counts
its CPU time. An interrupted program ends its gateways and removes their folders."""
import atexit, base64, ctypes, hashlib, hmac, json, os, re, shutil, signal, socket, subprocess, sys, tempfile, time

SECRET = "k" * 64
HEADERS = [
    "user-agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120.0", "accept: application/json",
    "accept-encoding: gzip, deflate", "accept-language: en-US,en;q=0.9", "x-user-id: spoofed",
]


LIBC = ctypes.CDLL(None)
PR_SET_PDEATHSIG = 1
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, lambda number, _: sys.exit(128 + number))


def need(*tools):
    """Ends the program if one of these, given with their Debian packages, is missing."""
    os.environ["PATH"] += ":/usr/sbin"
    missing = [package for tool, package in tools if not shutil.which(tool)]
    if missing:
        sys.exit(f"missing: apt-get install {' '.join(missing)}")


def need_build(path):
    """Ends the program if there is no build at this path."""
    if not (os.path.isfile(path) and os.access(path, os.X_OK)):
        sys.exit(f"{path} cannot be run; swift build -c release --product tollgate makes .build/release/tollgate")


def with_parent(cpus=None):
    """For `preexec_fn`: a process that does not outlive this program, even when that is killed, and runs on `cpus`."""

    def prepare():
        LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        cpus and os.sched_setaffinity(0, cpus)

    return prepare


def token(user="user-0001", filling=500):
    """A token that the issuer `load` of every gateway here signed, with so many bytes of scopes."""
    encode = lambda value: base64.urlsafe_b64encode(value).rstrip(b"=").decode()
    claims = {"iss": "https://load.invalid", "aud": "load", "sub": user, "exp": 4_000_000_000, "jti": "a" * 32, "scope": "x" * filling}
    text = encode(json.dumps({"alg": "HS256", "typ": "JWT"}).encode()) + "." + encode(json.dumps(claims).encode())
    return text + "." + encode(hmac.new(SECRET.encode(), text.encode(), hashlib.sha256).digest())


def free_ports(count):
    listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in listeners]
    for each in listeners:
        each.close()
    return ports


class Gateway:
    """One build, running. `settings` are added to those below, which name an upstream `load` and an issuer `load`; `tool` is a command
    that runs the gateway's, such as valgrind; `files` are env files; `cpus` is the set that it may run on, by default all."""

    def __init__(self, binary, upstream, settings, tool=(), files=(), cpus=None):
        self.folder, self.process = tempfile.mkdtemp(), None
        atexit.register(self.stop, signal.SIGKILL)
        with open(self.folder + "/secret", "w", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
            file.write(SECRET)
        environment = {
            "PATH": os.environ["PATH"], "TOLLGATE_LISTEN": "127.0.0.1:0;h2c", "TOLLGATE_ADMIN_LISTEN": "127.0.0.1:0",
            "TOLLGATE_ADMIN_TOKEN": "load-admin-token-load-admin-token", "TOLLGATE_WORKERS": "1", "TOLLGATE_DATA_DIR": self.folder + "/data",
            "TOLLGATE_CONTRACTS": "", "TOLLGATE_ACCESS_LOG": "off", "TOLLGATE_UPSTREAM_LOAD": f"http://127.0.0.1:{upstream}",
            "TOLLGATE_TRUST_LOAD": f"issuer=https://load.invalid audience=load secret-file={self.folder}/secret algorithms=HS256",
        } | settings
        command = [*tool, binary, "serve", *(part for file in files for part in ("--env-file", file))]
        self.log = open(self.folder + "/log", "w+")
        # The kernel chooses the ports: one that was free a moment ago could be another gateway's by now, and both would listen.
        ports = {}
        self.process = subprocess.Popen(
            command, env=environment, stdout=self.log, stderr=subprocess.STDOUT, preexec_fn=with_parent(cpus))
        while "admin" not in ports and self.process.poll() is None:
            time.sleep(0.1)
            ports = self.listening()
        if "admin" not in ports:
            sys.exit(f"{binary} did not start:\n{self.text()[-2000:]}")
        self.port, self.tls, self.admin = ports["http"], ports.get("https"), f"http://127.0.0.1:{ports['admin']}"

    def text(self):
        with open(self.folder + "/log") as file:
            return file.read()

    def listening(self):
        """The ports that the log names, by protocol; the admin listener is named last."""
        return {protocol: int(port) for port, protocol in re.findall(r'"address":"127.0.0.1:(\d+)","protocol":"(\w+)"', self.text())}

    def cpu(self):
        """Seconds of CPU of all threads; unlike in `stat`, in nanoseconds."""
        total = 0
        for thread in os.listdir(f"/proc/{self.process.pid}/task"):
            with open(f"/proc/{self.process.pid}/task/{thread}/schedstat") as file:
                total += int(file.read().split()[0])
        return total / 1e9

    def stop(self, number=signal.SIGTERM):
        if self.process:
            self.process.send_signal(number)
            self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

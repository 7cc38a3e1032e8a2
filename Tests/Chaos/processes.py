"""Processes of the suite: each ends with it, however it ends."""
import asyncio
import ctypes
import os
import pwd
import resource
import shutil
import signal
import socket
import subprocess
import time

# The environment without settings of the gateway, which would add to those of the suite.
ENVIRONMENT = {name: value for name, value in os.environ.items()
               if not name.startswith(("TOLLGATE_", "DATABASE_URL", "REDIS_URL", "SMTP_URL", "PG"))}
LIBC = ctypes.CDLL(None, use_errno=True)
PR_SET_PDEATHSIG = 1


class SetupError(Exception):
    """Something that the suite needs is missing, or does not start or end."""


def program(name):
    """The path of a program, also of PostgreSQL's, which Debian keeps off the PATH."""
    places = [f"/usr/lib/postgresql/{version}/bin" for version in sorted(os.listdir("/usr/lib/postgresql"), reverse=True)] \
        if os.path.isdir("/usr/lib/postgresql") else []
    found = shutil.which(name) or shutil.which(name, path=":".join(places))
    if not found:
        raise SetupError(f"{name} is missing: deploy/test --chaos installs it")
    return found


_held_ports = []


def free_port():
    """A port for a server that cannot choose one by itself. It is held as long as the suite runs: the kernel gives it to nobody else,
    and a server that sets SO_REUSEADDR, as Redis does, may listen on it, end, and listen again."""
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind(("127.0.0.1", 0))
    _held_ports.append(held)
    return held.getsockname()[1]


def unprivileged():
    """The user for PostgreSQL, which refuses to run as root; None if the suite is not root."""
    return pwd.getpwnam("nobody") if os.getuid() == 0 else None


def _begin(user):
    def prepare():
        if user:
            os.setgroups([])
            os.setgid(user.pw_gid)
            os.setuid(user.pw_uid)
        LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    return prepare


async def run(*words, user=None):
    """Runs a program to its end, and returns its output; raises SetupError if it fails."""
    process = await asyncio.create_subprocess_exec(
        program(words[0]), *words[1:], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd="/",
        env=ENVIRONMENT, preexec_fn=_begin(user))
    output, complaints = await process.communicate()
    if process.returncode != 0:
        raise SetupError(f"{' '.join(words)}: {complaints.decode()}{output.decode()}")
    return output.decode().strip()


class Process:
    """A server in a folder of its own, with its output in `output` and its complaints in `complaints`."""

    def __init__(self, folder, user=None):
        self.folder, self.user = folder, user
        self.starts, self.popen, self.is_stopped = 0, None, False
        os.makedirs(folder, exist_ok=True)

    @property
    def output(self):
        return f"{self.folder}/output-{self.starts}"

    @property
    def complaints(self):
        return f"{self.folder}/complaints-{self.starts}"

    def launch(self, words, environment=None):
        self.starts += 1
        with open(self.output, "ab") as output, open(self.complaints, "ab") as complaints:
            self.popen = subprocess.Popen(
                [program(words[0])] + words[1:], stdin=subprocess.DEVNULL, stdout=output, stderr=complaints, cwd=self.folder,
                env={**ENVIRONMENT, **(environment or {})}, preexec_fn=_begin(self.user))
        self.is_stopped = False

    def text(self):
        """All that this start has written."""
        written = ""
        for path in (self.output, self.complaints):
            with open(path, errors="replace") as file:
                written += file.read()
        return written

    async def wait_for(self, text, seconds=60):
        """Waits until it has written `text`."""
        until = time.monotonic() + seconds
        while text not in self.text():
            if self.popen.poll() is not None or time.monotonic() > until:
                raise SetupError(f"{self.folder} does not start: {self.text()[-2000:]}")
            await asyncio.sleep(0.02)

    @property
    def is_running(self):
        return self.popen is not None and self.popen.poll() is None

    def pids(self):
        """Its process and the children of that."""
        found = [self.popen.pid]
        for entry in os.listdir("/proc"):
            if entry.isdigit():
                try:
                    with open(f"/proc/{entry}/stat") as file:
                        if int(file.read().rsplit(")", 1)[1].split()[1]) == self.popen.pid:
                            found.append(int(entry))
                except OSError:
                    pass
        return found

    def signal_all(self, number):
        for pid in self.pids():
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass

    def stop(self):
        """SIGSTOP."""
        if self.is_running:
            self.is_stopped = True
            self.signal_all(signal.SIGSTOP)

    def go_on(self):
        """SIGCONT."""
        if self.is_running and self.is_stopped:
            self.signal_all(signal.SIGCONT)
        self.is_stopped = False

    async def end(self, number=signal.SIGKILL, seconds=40):
        """Sends a signal, and waits until it has ended; returns its exit code."""
        if self.popen is None:
            return 0
        children = self.pids()[1:]
        self.go_on()
        if self.is_running:
            os.kill(self.popen.pid, number)
        until = time.monotonic() + seconds
        while self.popen.poll() is None or any(os.path.exists(f"/proc/{pid}") for pid in children):
            if time.monotonic() > until:
                self.signal_all(signal.SIGKILL)
                raise SetupError(f"{self.folder} did not end by signal {number} within {seconds} s")
            await asyncio.sleep(0.01)
        return self.popen.returncode

    def fill_disk(self):
        """No file that it writes may grow, as on a full disk."""
        resource.prlimit(self.popen.pid, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))

    def free_disk(self):
        if self.is_running:
            resource.prlimit(self.popen.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


class Postgres:
    """A primary and a standby that follows it synchronously, so that an answered commit survives the loss of the primary."""

    def __init__(self, folder):
        self.user = unprivileged()
        self.nodes = [Process(f"{folder}/{name}", self.user) for name in ("database-a", "database-b")]
        self.primary, self.standby = self.nodes
        for node in self.nodes:
            if self.user:
                os.chown(node.folder, self.user.pw_uid, self.user.pw_gid)

    def socket(self, node):
        return f"{node.folder}/.s.PGSQL.5432"

    async def start(self):
        await run("initdb", "-D", f"{self.primary.folder}/data", "-U", "tollgate", "-A", "trust", "--no-sync", "--locale=C.UTF-8",
                  user=self.user)
        await self._launch(self.primary)
        await self.sql("CREATE DATABASE accounts")
        await self.rejoin()

    async def _launch(self, node):
        options = {"listen_addresses": "", "unix_socket_directories": node.folder, "port": "5432", "fsync": "off",
                   "max_connections": "100", "shared_buffers": "16MB", "wal_receiver_status_interval": "1",
                   "wal_retrieve_retry_interval": "200ms"}
        node.launch(["postgres", "-D", f"{node.folder}/data"] + [f"--{name}={value}" for name, value in options.items()])
        await node.wait_for("ready to accept")

    async def sql(self, statement, node=None):
        return await run("psql", "-qAtX", "-h", (node or self.primary).folder, "-U", "tollgate", "-c", statement,
                         "postgres", user=self.user)

    async def fail_over(self):
        """Kills the primary and promotes the standby."""
        await self.primary.end(signal.SIGQUIT)
        await run("pg_ctl", "-D", f"{self.standby.folder}/data", "-w", "promote", user=self.user)
        self.primary, self.standby = self.standby, self.primary

    async def switch(self):
        """Makes the primary read-only, which goes on answering, and promotes the standby once it has replayed everything."""
        await self.sql("ALTER SYSTEM SET default_transaction_read_only = on")
        await self.sql("SELECT pg_reload_conf()")
        while await self.sql("SHOW default_transaction_read_only") != "on":
            await asyncio.sleep(0.01)
        position = await self.sql("SELECT pg_current_wal_lsn()")
        while await self.sql(f"SELECT pg_last_wal_replay_lsn() >= '{position}'", self.standby) != "t":
            await asyncio.sleep(0.01)
        await run("pg_ctl", "-D", f"{self.standby.folder}/data", "-w", "promote", user=self.user)
        # The new primary has no standby yet, for which commits would wait.
        self.primary, self.standby = self.standby, self.primary
        await self.sql("ALTER SYSTEM RESET synchronous_standby_names")
        await self.sql("SELECT pg_reload_conf()")

    async def retire(self):
        """Ends the former primary."""
        await self.standby.end(signal.SIGQUIT)

    def _psql(self, name, statements):
        session = Process(f"{self.primary.folder}-{name}", self.user)
        if self.user:
            os.chown(session.folder, self.user.pw_uid, self.user.pw_gid)
        session.launch(["psql", "-qAtX", "-h", self.primary.folder, "-U", "tollgate"] +
                       [word for statement in statements for word in ("-c", statement)] + ["accounts"], {"PGAPPNAME": "disturber"})
        return session

    async def release(self, session):
        """Ends such a session, also at the server, which goes on with a statement whose client is gone."""
        await session.end(signal.SIGKILL)
        await self.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'disturber'")

    async def hold(self, statements):
        """A session that locks rows and keeps them until it is ended."""
        session = self._psql("holder", [f"SET search_path = tollgate; BEGIN; {statements}", "SELECT 'held'", "SELECT pg_sleep(3600)"])
        await session.wait_for("held")
        return session

    async def repeat(self, statement):
        """A session that runs a statement without a pause until it is ended, each time as a transaction."""
        return self._psql("writer", ["SET search_path = tollgate"] + [statement] * 200)

    async def restart(self):
        """Starts the primary again."""
        await self._launch(self.primary)

    async def rejoin(self):
        """Makes the other node a new standby of the primary."""
        shutil.rmtree(f"{self.standby.folder}/data", ignore_errors=True)
        await run("pg_basebackup", "-D", f"{self.standby.folder}/data", "-R", "-c", "fast", "--no-sync", "-h", self.primary.folder,
                  "-U", "tollgate", user=self.user)
        await self._launch(self.standby)
        while not await self.sql("SELECT 1 FROM pg_stat_replication WHERE state = 'streaming'"):
            await asyncio.sleep(0.05)
        await self.sql("ALTER SYSTEM SET synchronous_standby_names = '*'")
        await self.sql("SELECT pg_reload_conf()")

    async def end(self):
        for node in (self.standby, self.primary):
            await node.end(signal.SIGQUIT)

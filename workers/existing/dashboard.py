"""The dashboard of a cluster that is somebody else's, as far as one joins by it: version, packages,
jobs, Serve's document.

Raises Unreachable where trying again may help, and CannotJoin, with one line for the user, where it
does not.
"""

import json
import time
import urllib.error
import urllib.request
from http.client import HTTPException
from typing import Any

import msgspec

from workers.existing.facts import ANSWER, ClusterFacts
from workers.existing.nodes import RayNode
from workers.existing.package import Package
from workers.ray.serve_api import ServeDetails

TIMEOUT_S = 30.0
LOOK_EVERY_S = 0.2
STOPS_S = 30.0
SERVE = "/api/serve/applications/"
NODES = "/api/v0/nodes?limit=1000"
INTERPRETER = (
    "raylet=$(sed -n 's/^PPid:[^0-9]*//p' /proc/$PPID/status);"
    r" python=$(tr '\0' '\n' < /proc/$raylet/cmdline"
    r" | sed -n 's/^--python_worker_command=\([^ ]*\).*/\1/p'); exec ${python:-python}"
)
"""That of Ray's workers, in the words of a shell. A job's own one is what PATH says, which is
another one where Ray was started from a virtual environment."""
ENDED = ("SUCCEEDED", "FAILED", "STOPPED")


class CannotJoin(Exception):
    """One line: what is missing, and how to set it."""


class Unreachable(Exception):
    """Nothing answers there now."""


class Version(msgspec.Struct, frozen=True):
    ray_version: str
    session_name: str


class Job(msgspec.Struct, frozen=True):
    status: str
    message: str | None = None
    submission_id: str | None = None


class Dashboard:
    def __init__(self, address: str, token: str) -> None:
        self._base = address.rstrip("/")
        self._token = token

    def version(self) -> Version:
        status, content = self._call("GET", "/api/version")
        try:
            return msgspec.json.decode(content, type=Version)
        except msgspec.MsgspecError as odd:
            raise CannotJoin(
                f"no dashboard of Ray listens there: GET /api/version answered {status}"
            ) from odd

    def has_tokens(self) -> bool:
        """Whether the cluster refuses those without a token."""
        request = urllib.request.Request(f"{self._base}/api/version")
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_S):
                return False
        except urllib.error.HTTPError as refused:
            return refused.code in (401, 403)
        except (OSError, HTTPException):
            return True

    def keep_package(self, package: Package) -> None:
        """Have the package there for ten more minutes at least. Ray forgets one that nothing runs
        from."""
        path = f"/api/packages/gcs/{package.name}"
        status, _ = self._call("GET", path)
        if status != 200:
            status, content = self._call("PUT", path, package.content)
            if status != 200:
                raise CannotJoin(f"the cluster takes no package: {_last_line(content)}")

    def probe(
        self, runtime_env: dict[str, Any], modules: tuple[str, ...], patience_s: float
    ) -> ClusterFacts:
        """Look at the cluster from inside, by a job on its head."""
        command = f"{INTERPRETER} -m workers.existing.probe {' '.join(modules)}"
        body = msgspec.json.encode({"entrypoint": command, "runtime_env": runtime_env})
        status, content = self._call("POST", "/api/jobs/", body)
        if status != 200:
            kind = Unreachable if status >= 500 else CannotJoin
            raise kind(
                f"the cluster takes no job, which needs ray[default] on its head: {status}"
                f" {_last_line(content)}"
            )
        path = f"/api/jobs/{json.loads(content)['submission_id']}"
        job = self._ended(path, patience_s)
        _, content = self._call("GET", f"{path}/logs")
        lines = str(json.loads(content).get("logs") or "").splitlines()
        facts = [line for line in lines if line.startswith(ANSWER)]
        if job.status != "SUCCEEDED" or not facts:
            words = next(filter(str.strip, reversed(lines)), job.message)
            raise CannotJoin(f"a job on the cluster failed: {words}")
        return msgspec.json.decode(facts[-1][len(ANSWER) :], type=ClusterFacts)

    def runs(self, id: str) -> bool:
        """Whether this job is there and has not ended."""
        status, content = self._call("GET", f"/api/jobs/{id}")
        return status == 200 and msgspec.json.decode(content, type=Job).status not in ENDED

    def running_jobs(self, beginning: str) -> list[str]:
        """Those whose ids begin so."""
        _, content = self._call("GET", "/api/jobs/")
        jobs = msgspec.json.decode(content, type=list[Job])
        ids = [job.submission_id or "" for job in jobs if job.status not in ENDED]
        return [id for id in ids if id.startswith(beginning)]

    def start_job(self, id: str, command: str, runtime_env: dict[str, Any]) -> None:
        """On the head. The id is new: another job of the same one would share its log."""
        job = {
            "entrypoint": f"{INTERPRETER} {command}",
            "runtime_env": runtime_env,
            "submission_id": id,
        }
        status, content = self._call("POST", "/api/jobs/", msgspec.json.encode(job))
        if status != 200:
            raise Unreachable(f"the cluster takes no job: {status} {_last_line(content)}")

    def end_job(self, id: str) -> None:
        self._call("POST", f"/api/jobs/{id}/stop")
        self._ended(f"/api/jobs/{id}", STOPS_S)

    def line_of_job(self, id: str, beginning: str, patience_s: float) -> str:
        """The rest of the first line of its log that begins so."""
        for _ in range(max(1, round(patience_s / LOOK_EVERY_S))):
            _, content = self._call("GET", f"/api/jobs/{id}/logs")
            lines = str(json.loads(content or b"{}").get("logs") or "").splitlines()
            for line in lines:
                if line.startswith(beginning):
                    return line[len(beginning) :]
            _, content = self._call("GET", f"/api/jobs/{id}")
            if msgspec.json.decode(content, type=Job).status in ENDED:
                words = next(filter(str.strip, reversed(lines)), "it said nothing")
                raise CannotJoin(f"a job on the cluster failed: {words}")
            time.sleep(LOOK_EVERY_S)
        raise Unreachable(f"a job on the cluster did not start in {patience_s:.0f} s")

    def nodes(self) -> list[RayNode]:
        status, content = self._call("GET", NODES)
        if status != 200:
            raise Unreachable(f"the list of nodes: {status} {_last_line(content)}")
        rows = msgspec.json.decode(content)["data"]["result"]["result"]
        return msgspec.convert(rows, list[RayNode])

    def serve_details(self) -> ServeDetails:
        status, content = self._call("GET", SERVE)
        if status != 200:
            raise Unreachable(f"Serve answered {status}: {_last_line(content)}")
        return msgspec.json.decode(content, type=ServeDetails)

    def _ended(self, path: str, patience_s: float) -> Job:
        for _ in range(max(1, round(patience_s / LOOK_EVERY_S))):
            _, content = self._call("GET", path)
            job = msgspec.json.decode(content, type=Job)
            if job.status in ENDED:
                return job
            time.sleep(LOOK_EVERY_S)
        raise CannotJoin(
            f"a job on the cluster did not end in {patience_s:.0f} s (start_timeout_s of [ray]):"
            f" {job.message or job.status}"
        )

    def _call(self, method: str, path: str, body: bytes | None = None) -> tuple[int, bytes]:
        """Status and content of any answer but a refusal of the token."""
        headers = {"authorization": f"Bearer {self._token}"}
        if body is not None:
            is_zip = path.startswith("/api/packages/")
            headers["content-type"] = "application/zip" if is_zip else "application/json"
        request = urllib.request.Request(self._base + path, body, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_S) as reply:
                return reply.status, reply.read()
        except urllib.error.HTTPError as refused:
            content = refused.read()
            if refused.code in (401, 403):
                raise CannotJoin(
                    "the cluster refuses the token: set RAY_AUTH_TOKEN to the one that its nodes"
                    " were started with"
                ) from refused
            return refused.code, content
        except OSError as away:
            raise Unreachable(str(getattr(away, "reason", None) or away)) from away
        except HTTPException as odd:
            raise CannotJoin(f"no dashboard of Ray listens there: {type(odd).__name__}") from odd


def _last_line(content: bytes) -> str:
    lines = content.decode(errors="replace").strip().splitlines()
    return lines[-1][:200] if lines else ""

"""`ray.job_submission.JobSubmissionClient`: a client of Phalanx's job server and of Ray's job
server.
"""

from __future__ import annotations

import asyncio
import json
import os
import ssl
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlsplit
from urllib.request import Request, urlopen

from phalanx.adapters.ray.jobs import files
from phalanx.adapters.ray.jobs.details import JobDetails, JobStatus, read_details
from phalanx.adapters.ray.jobs.packing import pack
from phalanx.adapters.ray.tokens import auth_token
from phalanx.errors import AuthenticationError
from phalanx.model.environments import written_environment
from phalanx.runtime.environments.reading import environment_of
from phalanx.runtime.os.serving import servers

DEFAULT_URL = "http://127.0.0.1:8265"
_LOOK_EVERY_S = 0.25
_ANSWER_S = 120.0


@dataclass(frozen=True)
class _Response:
    status_code: int
    text: str

    def json(self) -> Any:
        return json.loads(self.text)


class JobSubmissionClient:
    """A client that submits jobs to a cluster over HTTP, and asks about them.

    `address` is the URL of a job server, such as http://127.0.0.1:8265. If `address` is None or
    "auto", the client uses the server that this user started last on this machine. If `address` is
    HOST:PORT of a cluster's head, the client uses the cluster's server. As in Ray,
    RAY_API_SERVER_ADDRESS and RAY_ADDRESS take precedence over `address`. To a server of this user
    on this machine, the client sends the server's own token. To other servers it sends the token in
    RAY_AUTH_TOKEN, or in the file RAY_AUTH_TOKEN_PATH (~/.ray/auth_token), if RAY_AUTH_MODE=token
    is set. Raises ConnectionError if no server answers, and TypeError for arguments of a wrong
    type.
    """

    def __init__(
        self,
        address: str | None = None,
        create_cluster_if_needed: bool = False,
        cookies: dict[str, Any] | None = None,
        metadata: dict[str, Any] | None = None,
        headers: dict[str, Any] | None = None,
        verify: str | bool = True,
    ) -> None:
        given: list[tuple[str, object, str, tuple[type, ...]]] = [
            ("address", address, "a string", (str, type(None))),
            ("create_cluster_if_needed", create_cluster_if_needed, "a bool", (bool,)),
            ("cookies", cookies, "a dict", (dict, type(None))),
            ("metadata", metadata, "a dict", (dict, type(None))),
            ("headers", headers, "a dict", (dict, type(None))),
            ("verify", verify, "a str or bool", (str, bool)),
        ]
        for name, value, what, types in given:
            if not isinstance(value, types):
                raise TypeError(f"{name} must be {what}, got {type(value)}")
        self._address = server_url(address)
        self._metadata = dict(metadata or {})
        self._headers = {**_token_headers(self._address), **(headers or {})}
        if cookies:
            pairs = (f"{name}={value}" for name, value in cookies.items())
            self._headers["Cookie"] = "; ".join(pairs)
        self._tls = _tls(verify) if self._address.startswith("https:") else None
        self._ask("GET", "/api/version")

    def get_address(self) -> str:
        """Return the server's URL."""
        return self._address

    def get_version(self) -> str:
        """Return the version of the job API."""
        return str(self._ask("GET", "/api/version")["version"])

    def submit_job(
        self,
        *,
        entrypoint: str,
        job_id: str | None = None,
        runtime_env: dict[str, Any] | None = None,
        metadata: dict[str, str] | None = None,
        submission_id: str | None = None,
        entrypoint_num_cpus: float | None = None,
        entrypoint_num_gpus: float | None = None,
        entrypoint_memory: int | None = None,
        entrypoint_resources: dict[str, float] | None = None,
        entrypoint_label_selector: dict[str, str] | None = None,
    ) -> str:
        """Run a shell command as a job.

        Returns the job's submission id. Directories that the runtime environment names are
        uploaded. Raises RuntimeError if the server refuses the job, for example because the id is
        taken, and ValueError for a directory that does not exist.
        """
        environment = self._uploaded(dict(runtime_env or {}))
        request = {
            "entrypoint": entrypoint,
            "submission_id": submission_id or job_id,
            "runtime_env": environment,
            "metadata": {**(metadata or {}), **self._metadata},
            "entrypoint_num_cpus": entrypoint_num_cpus,
            "entrypoint_num_gpus": entrypoint_num_gpus,
            "entrypoint_memory": entrypoint_memory,
            "entrypoint_resources": entrypoint_resources,
            "entrypoint_label_selector": entrypoint_label_selector,
        }
        given = {name: value for name, value in request.items() if value is not None}
        return str(self._ask("POST", "/api/jobs/", given)["submission_id"])

    def get_job_info(self, job_id: str) -> JobDetails:
        """Return all facts about a job. Raises RuntimeError for an unknown job."""
        return read_details(self._ask("GET", _path(job_id)))

    def get_job_status(self, job_id: str) -> JobStatus:
        """Return a job's status. Raises RuntimeError for an unknown job."""
        return self.get_job_info(job_id).status

    def list_jobs(self) -> list[JobDetails]:
        """Return all jobs that the cluster remembers, the oldest first."""
        return [read_details(one) for one in self._ask("GET", "/api/jobs/")]

    def get_job_logs(self, job_id: str) -> str:
        """Return a job's output so far. Raises RuntimeError for an unknown job."""
        return str(self._ask("GET", f"{_path(job_id)}/logs")["logs"])

    async def tail_job_logs(self, job_id: str) -> AsyncIterator[str]:
        """Yield a job's output as it is printed, until the job is over.

        The client polls the server, so it needs no library for WebSockets. Raises RuntimeError for
        an unknown job.
        """
        shown = 0
        is_over = False
        while not is_over:
            status = await asyncio.to_thread(self.get_job_status, job_id)
            is_over = status.is_terminal()
            text = await asyncio.to_thread(self.get_job_logs, job_id)
            if len(text) > shown:
                yield text[shown:]
                shown = len(text)
            elif not is_over:
                await asyncio.sleep(_LOOK_EVERY_S)

    def stop_job(self, job_id: str) -> bool:
        """End a job; return False when it was already over.

        Raises RuntimeError for an unknown job.
        """
        return bool(self._ask("POST", f"{_path(job_id)}/stop")["stopped"])

    def delete_job(self, job_id: str) -> bool:
        """Delete a job that is over. Raises RuntimeError for an unknown job, and for a job that is
        not over.
        """
        return bool(self._ask("DELETE", _path(job_id))["deleted"])

    # ---- uploads -----------------------------------------------------------------------------

    def _uploaded(self, environment: dict[str, Any]) -> dict[str, Any]:
        """Upload the directories that a runtime environment names. Returns the environment with the
        packages' URIs in their place.
        """
        excludes = environment.pop("excludes", None) or []
        if (software := environment_of(environment)) is not None:
            environment |= written_environment(software)
        if directory := environment.get("working_dir"):
            environment["working_dir"] = self._upload(str(directory), excludes)
        if modules := environment.get("py_modules"):
            environment["py_modules"] = [
                self._upload(str(getattr(one, "__path__", [one])[0]), excludes, with_its_name=True)
                for one in modules
            ]
        return environment

    def _upload(self, path: str, excludes: list[str], *, with_its_name: bool = False) -> str:
        if "://" in path:
            if not path.endswith((".zip", ".whl")):
                raise ValueError(f"Only .zip files supported for remote URIs, not {path!r}.")
            return path
        uri, file = pack(Path(path).expanduser(), excludes, with_its_name=with_its_name)
        with file:
            where = "/api/packages/" + uri.replace("://", "/")
            if self._do_request("GET", where).status_code == 404:
                self._ask("PUT", where, file)
        return uri

    # ---- HTTP --------------------------------------------------------------------------------

    def _ask(
        self, method: str, endpoint: str, body: Mapping[str, Any] | IO[bytes] | None = None
    ) -> Any:
        """Send a request. Returns the server's JSON answer. If the server answers with an error,
        raises RuntimeError with its text.
        """
        if isinstance(body, Mapping):
            response = self._do_request(method, endpoint, json_data=body)
        else:
            response = self._do_request(method, endpoint, data=body)
        if response.status_code != 200:
            raise RuntimeError(
                f"Request failed with status code {response.status_code}: {response.text}."
            )
        return response.json() if response.text else None

    def _do_request(
        self,
        method: str,
        endpoint: str,
        *,
        data: IO[bytes] | None = None,
        json_data: Mapping[str, Any] | None = None,
    ) -> _Response:
        headers = {name: str(value) for name, value in self._headers.items()}
        body: bytes | IO[bytes] | None = data
        if json_data is not None:
            body = json.dumps(json_data).encode()
            headers["Content-Type"] = "application/json"
        elif data is not None:
            headers["Content-Type"] = "application/octet-stream"
            headers["Content-Length"] = str(data.seek(0, os.SEEK_END))
            data.seek(0)
        request = Request(self._address + endpoint, body, headers, method=method)
        try:
            with urlopen(request, timeout=_ANSWER_S, context=self._tls) as response:
                return _Response(response.status, response.read().decode("utf-8", "replace"))
        except HTTPError as error:
            with error:
                text = error.read().decode("utf-8", "replace")
            if error.code in (401, 403) and "authentication token" in text:
                raise AuthenticationError(
                    f"{text}: set RAY_AUTH_MODE=token, and RAY_AUTH_TOKEN or RAY_AUTH_TOKEN_PATH, "
                    f"or give headers={{'Authorization': 'Bearer ...'}}. The token of a server is "
                    "in the file ~/.phalanx/ray-jobs/token of the user who started it."
                ) from None
            return _Response(error.code, text)
        except (URLError, ConnectionError) as error:
            raise ConnectionError(
                f"Failed to connect to Ray at address: {self._address}."
            ) from error


def server_url(address: str | None) -> str:
    """Return the URL of the job server at an address.

    Raises ValueError for an address of Ray Client.
    """
    named = os.environ.get("RAY_API_SERVER_ADDRESS") or os.environ.get("RAY_ADDRESS") or address
    if named in (None, "", "auto"):
        running = servers(files.directory())
        return running[-1].url if running else DEFAULT_URL
    assert named is not None
    if "://" not in named:
        of_cluster = [one.url for one in servers(files.directory()) if one.cluster == named]
        return of_cluster[-1] if of_cluster else f"http://{named}"
    if urlsplit(named).scheme not in ("http", "https"):
        raise ValueError(
            f"{named!r} is not the address of a job server, which looks like http://HOST:8265."
        )
    return named.rstrip("/")


def _token_headers(url: str) -> dict[str, str]:
    """Return the headers with the token for a server.

    The token of a local job server is sent only if that server is known to be this user's.
    Otherwise, another user's process that now listens at its port could get the token.
    """
    token = auth_token()
    local = url.replace("//localhost:", "//127.0.0.1:")
    if not token and any(one.url == local for one in servers(files.directory())):
        token = files.token()
    return {"Authorization": f"Bearer {token.strip()}"} if token else {}


def _tls(verify: str | bool) -> ssl.SSLContext:
    """Return the TLS settings for the option `verify`. Raises FileNotFoundError for a path without
    certificates.
    """
    if isinstance(verify, str):
        if not os.path.exists(verify):
            raise FileNotFoundError(f"Path to CA certificates: '{verify}', does not exist.")
        is_directory = os.path.isdir(verify)
        return ssl.create_default_context(
            cafile=None if is_directory else verify, capath=verify if is_directory else None
        )
    context = ssl.create_default_context()
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _path(job_id: str) -> str:
    return f"/api/jobs/{quote(job_id, safe='')}"

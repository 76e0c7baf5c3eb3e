"""Runs several replicas of the service behind one address with Ray Serve (extra `ray`): `omgm serve --replicas`.

Each replica is a process with its own models, index and admission control. Ray routes each request to one of them,
restarts those that die, and with a range of replicas adds some while requests are waiting.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from indexes.builder.ray_address import connect
from omgm.profile import device_of, sees_gpu
from omgm.served_app import build_app

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from omgm.settings import Profile

logger = logging.getLogger(__name__)

_NAME = "omgm"
"""Name of the application on the cluster, and of the actor that the command holds while it runs."""
_ROUTING = {"RAY_SERVE_PROXY_PREFER_LOCAL_NODE_ROUTING": "0"}
"""By default, a machine passes its requests to its own replica as long as that accepts any. Ours accepts all, to refuse
some by their expected wait, so it would refuse requests while the replicas of other machines are idle."""


@contextmanager
def running_replicas(
    profile: Profile, index: Path, replicas: tuple[int, int], host: str, port: int
) -> Generator[None, None, None]:
    """Runs replicas during a block, on the Ray cluster at RAY_ADDRESS or on this machine.

    They accept requests when the block begins; at its end they finish their current requests. SIGTERM raises
    `KeyboardInterrupt`, so that nothing is left running on the cluster; therefore call this in the main thread only.

    Raises:
        ValueError: The extra `ray` is not installed, the cluster does not exist or already serves another application
            or another command's replicas, it lacks cores or GPUs, or a replica does not start.
    """
    try:
        import ray
        from ray import serve
    except ImportError as error:
        raise ValueError('--replicas needs the extra ray: pip install "omgm[ray]"') from error
    logging.getLogger("ray.serve").setLevel(logging.WARNING)  # it logs every start and stop
    address = os.environ.get("RAY_ADDRESS") or "local"
    with ExitStack() as stack:
        if address == "local":
            ray.init(address, include_dashboard=False, log_to_driver=False)
        else:
            connect(address, "RAY_ADDRESS", _ROUTING)
        stack.callback(ray.shutdown)
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # only now: `ray.init` installs a handler that aborts
        profile = _placed(profile, resources := ray.cluster_resources(), address)
        options = _options(profile, replicas)
        _check_room(resources, options["ray_actor_options"], replicas[0], address)
        if address != "local":
            stack.callback(ray.kill, _claim())
        if others := serve.status().applications.keys() - {_NAME}:
            raise ValueError(f"Ray Serve runs {', '.join(sorted(others))} on this cluster; use another cluster")
        serve.shutdown()  # removes the leftovers of a killed command, and frees its address
        stack.callback(_stop)
        try:
            _start(profile, index, options, host, port)
        except (RuntimeError, ray.exceptions.RayError) as error:
            raise ValueError(f"the replicas did not start: {_reason(error)}") from error
        yield


def _placed(profile: Profile, resources: Mapping[str, float], address: str) -> Profile:
    """Returns a profile with the device of its replicas; "auto" is the GPU if this machine, or the cluster, has one.

    The device is named, so that no replica is placed without a GPU and then looks for one, or the other way round.
    """
    device = device_of(profile, sees_gpu if address == "local" else lambda: resources.get("GPU", 0) >= 1)
    return profile.model_copy(update={"device": device})


def _options(profile: Profile, replicas: tuple[int, int]) -> dict[str, Any]:
    settings = profile.serving
    # Each replica refuses requests by their expected wait, so Ray's own queue stays short.
    options: dict[str, Any] = {
        "max_ongoing_requests": settings.max_queue + 2 * settings.max_batch,
        "graceful_shutdown_timeout_s": settings.timeout_s,
        "ray_actor_options": {"num_cpus": settings.model_threads or 1, "num_gpus": int(profile.device == "cuda")},
    }
    if replicas[0] == replicas[1]:
        return options | {"num_replicas": replicas[0]}
    scaling = {"min_replicas": replicas[0], "max_replicas": replicas[1]}
    return options | {"autoscaling_config": scaling | {"target_ongoing_requests": settings.max_batch}}


def _check_room(found: Mapping[str, float], each: Mapping[str, int], replicas: int, address: str) -> None:
    """Reports a lack of cores or GPUs, for which Ray would wait silently.

    Raises:
        ValueError: This machine lacks them; on a cluster, which may grow, this is only a warning.
    """
    for count, resource, unit in (each["num_cpus"], "CPU", "cores"), (each["num_gpus"], "GPU", "GPUs"):
        if (needed := count * replicas) > (there := int(found.get(resource, 0))):
            lack = f"--replicas {replicas} needs {needed} {unit}, but there are {there}"
            if address == "local":
                raise ValueError(lack)
            logger.warning("%s in the cluster now; waiting for more", lack)


def _claim() -> Any:
    """Returns an actor that keeps other commands off this cluster while this process lives and holds a reference to it.

    Raises:
        ValueError: Another command holds the actor.
    """
    import ray

    own = f"process {os.getpid()} on {socket.gethostname()}"
    claim = ray.remote(num_cpus=0)(_Claim).options(name=_NAME, namespace=_NAME, get_if_exists=True).remote(own)
    if (holder := ray.get(claim.holder.remote())) != own:
        raise ValueError(f"`omgm serve --replicas` already serves on this cluster ({holder}); use another cluster")
    return claim


class _Claim:
    """An actor that names its owner; Ray removes it when the process that created it ends, in whatever way."""

    def __init__(self, holder: str) -> None:
        self._holder = holder

    def holder(self) -> str:
        """Returns the process that created the actor."""
        return self._holder


def _start(profile: Profile, index: Path, options: Mapping[str, Any], host: str, port: int) -> None:
    from ray import serve

    from omgm.kinds import in_parts

    index = index if in_parts(index) else index.absolute()

    def build() -> ASGIApp:  # Ray accepts only a function
        from omgm.warm_up import freeze_objects

        app, _ = build_app(profile, index, read_only=True)
        freeze_objects()
        return _without_request_id(app)

    seconds = profile.serving.upload_timeout_s + profile.serving.timeout_s
    serve.start(http_options={"host": host, "port": port, "request_timeout_s": seconds + 10})
    replica: Any = serve.deployment(name="replica", **options)(serve.ingress(build)(Replica))
    serve.run(replica.bind(), name=_NAME)


def _without_request_id(app: ASGIApp) -> ASGIApp:
    """Returns `app` without the header `x-request-id` in its responses, because Ray adds its own."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        async def send_on(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [header for header in message["headers"] if header[0] != b"x-request-id"]
            await send(message)

        await app(scope, receive, send_on)

    return answer


def _reason(error: Exception) -> str:
    """Returns the last line of a replica's traceback, or of the error if no replica was started."""
    from ray import serve

    application = serve.status().applications.get(_NAME)
    messages = [deployment.message for deployment in application.deployments.values()] if application else []
    return str(next(filter(None, messages), str(error)).strip().splitlines()[-1])


def _stop() -> None:
    from ray import serve

    running = serve.status().applications.keys()
    try:
        if _NAME in running:
            serve.delete(_NAME)  # first, because shutting down Ray Serve cuts off responses in progress
    finally:
        if running <= {_NAME}:
            serve.shutdown()


class Replica:
    """One process of the service; Ray adds the application to it."""

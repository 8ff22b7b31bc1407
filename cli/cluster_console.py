"""`eosin console` over a cluster, until Ctrl-C.

Always true: with `--command-config` the pages ask for a token that is made for this run, since they show what that user
may see to whoever can open the port.
"""

import contextlib
import secrets
from argparse import Namespace
from typing import TYPE_CHECKING, Final

from eosin.cli.common.arguments import fail
from eosin.cli.common.security_options import principal_of, security_of
from eosin.cli.serve import OK, stop_on_signals
from eosin.settings.listeners import Listener
from eosin.settings.start_error import StartError

if TYPE_CHECKING:
    from eosin.client.client import Client

TOKEN_BYTES: Final = 24


async def show(client: "Client", listener: Listener, options: Namespace) -> int:
    """Serve the pages until a signal; the exit code."""
    from eosin.node.cluster_console import serve_console
    from eosin.observe.explain.cluster_facts import ClusterFacts

    stop, security = stop_on_signals(), security_of(options)
    facts = ClusterFacts(
        client,
        http=None,
        token=None,
        timeout_ms=max(1, round(options.timeout * 1000)),
        principal=principal_of(options),
        tls=None if security is None else security.tls,
    )
    token = None if security is None else secrets.token_urlsafe(TOKEN_BYTES)
    bootstrap = options.bootstrap_server
    try:
        async with serve_console(client, facts, listener, bootstrap=bootstrap, token=token) as address:
            with contextlib.suppress(OSError):  # whoever reads it may be gone
                key = "" if token is None else f"#token={token}"
                print(f"console of {bootstrap}: http://{address}/{key}", flush=True)
            await stop.wait()
    except StartError as refused:
        return fail("console", str(refused))
    return OK

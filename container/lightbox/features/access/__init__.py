"""Access control: keys with roles, or a URL that decides; and the sites whose pages may call, in a browser."""

from __future__ import annotations

import re
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, BeforeValidator
from typing_extensions import override

from lightbox.base.errors import StartError
from lightbox.base.settings import Settings, variable_names
from lightbox.base.settings_types import PART, setting
from lightbox.base.telemetry.metrics import Metric
from lightbox.core.additions import Authenticator, Measured, NginxParts
from lightbox.core.feature import Feature
from lightbox.core.places import counts_of_keys

if TYPE_CHECKING:
    from lightbox.core.operations import Description
    from lightbox.core.start import Start
    from lightbox.features.access.authenticators import KeyAuthenticator
    from lightbox.features.access.keys import KeyFile
    from lightbox.openapi.models import DescribedModel

THEME, KEYS, URL = "Access", "LIGHTBOX_API_KEYS", "LIGHTBOX_AUTH_URL"
_URL = re.compile(r"https?://[^\s/?#]+([/?]\S*)?")
_ORIGIN = re.compile(r"https?://[a-z0-9.:\[\]_-]+")
_HOST = re.compile(r"(\*\.)?[a-z0-9_-]+(\.[a-z0-9_-]+)*|\[[0-9a-f:]+\]")
_UNSERVED = "if ($unserved_host) { return 421; }"
REQUESTS = Metric("counter", "lightbox_caller_requests", "Requests with a valid key, by its name.", ("caller",))
LIMITED = Metric(
    "counter", "lightbox_caller_limited", "Requests refused by the limits of a key, by its name.", ("caller",)
)


def _parse_url(value: str | None) -> str | None:
    try:
        usable = value is None or (_URL.fullmatch(value) and urlsplit(value).hostname and urlsplit(value).port != 0)
    except ValueError:  # such as a port that is not a number
        usable = False
    if not usable:
        raise ValueError("expected a URL with http or https, such as http://auth:9000/check")
    return value


def _parse_origins(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    origins = tuple(word.strip().lower() for word in value.split(",") if word.strip())
    if not origins or (origins != ("*",) and not all(map(_ORIGIN.fullmatch, origins))):
        raise ValueError("expected * or origins with commas, without a path, such as https://app.example.com")
    return origins


def _parse_hosts(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    hosts = tuple(dict.fromkeys(word.strip().lower() for word in value.split(",") if word.strip()))
    if not hosts or not all(map(_HOST.fullmatch, hosts)):
        raise ValueError("expected names with commas, without ports, such as lightbox.example.com,*.example.org")
    return hosts


class AccessSettings(BaseModel):
    """The variables of access."""

    model_config = PART

    api_keys: Path | None = setting(THEME, KEYS)
    """File of [API keys](keys.md), with lines `NAME sha256:HASH ROLES`."""

    auth_url: Annotated[str | None, AfterValidator(_parse_url)] = setting(
        THEME, URL, values_text="`http://…` or `https://…`"
    )
    """URL of a service that [authorizes requests](keys.md#jwts-and-other-services) instead of keys."""

    cors_origins: Annotated[tuple[str, ...] | None, BeforeValidator(_parse_origins)] = setting(
        THEME, "LIGHTBOX_CORS_ORIGINS", values_text="origins separated by commas, or `*`"
    )
    """Origins whose pages may call Lightbox from a browser, such as `https://app.example.com`."""

    hosts: Annotated[tuple[str, ...] | None, BeforeValidator(_parse_hosts)] = setting(
        THEME, "LIGHTBOX_HOSTS", values_text="names separated by commas"
    )
    """[Hosts that are served](keys.md#pages-of-other-sites), such as `lightbox.example.com,*.example.org`; another
    `Host` gets 421, except for health checks. Unset, every `Host` is served. The address to listen on is
    `LIGHTBOX_HOST`."""


class KeysUnusable(StartError):
    """The file of keys is unreadable, or a line of it is damaged."""


def _keys_of(path: Path) -> KeyFile:
    from lightbox.features.access.keys import KeyFile

    try:
        return KeyFile(path)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise KeysUnusable(f"{KEYS}: {path}: {reason}") from None


class Access(Feature):
    """Checks requests in the supervisor before nginx reads a body. nginx answers CORS requests of browsers.

    ``others`` are the features whose routes it guards.
    """

    name = "access"
    settings = AccessSettings
    without_nginx = "keys"
    metrics = (REQUESTS, LIMITED)
    _keys: KeyAuthenticator | None = None
    """The authenticator of this process, for its counts."""

    def __init__(self, others: Sequence[Feature]) -> None:
        self.managing = re.compile("|".join(pattern for other in others for pattern in other.manages))
        """Paths that load, unload and list models."""
        self._response_headers = ", ".join(name for other in others for name in other.response_headers)

    @override
    def enabled(self, settings: Settings) -> bool:
        own = settings.of(AccessSettings)
        return self._asks(settings) or own.cors_origins is not None or own.hosts is not None

    def _asks(self, settings: Settings) -> bool:
        own = settings.of(AccessSettings)
        return own.api_keys is not None or own.auth_url is not None

    @override
    def problems(self, settings: Settings) -> Mapping[str, str]:
        own = settings.of(AccessSettings)
        return {URL: f"expected no URL beside {KEYS}, as one of them decides"} if own.api_keys and own.auth_url else {}

    @override
    def check(self, settings: Settings) -> None:
        self.authenticator(settings)

    @override
    def authenticator(self, settings: Settings) -> Authenticator | None:
        """Return the check by key or by URL. Raises KeysUnusable."""
        from lightbox.features.access.authenticators import KeyAuthenticator, UrlAuthenticator

        own, managing = settings.of(AccessSettings), None if settings.has_fixed_models else self.managing
        origins = own.cors_origins or ()
        if own.auth_url is not None:
            return UrlAuthenticator(own.auth_url, managing, origins)
        if own.api_keys is None:
            return None
        self._keys = KeyAuthenticator(_keys_of(own.api_keys), managing, origins)
        return self._keys

    @override
    def callers(self, settings: Settings) -> str | None:
        own = settings.of(AccessSettings)
        if own.auth_url is not None:
            return f"whom {URL} lets in"
        return (
            None if own.api_keys is None else f"holders of a key; {len(_keys_of(own.api_keys))} are in {own.api_keys}"
        )

    @override
    def tasks(self, start: Start) -> Iterable[Coroutine[Any, Any, None]]:
        if self._keys is not None:
            Thread(target=self._keys.keys.follow, name="keys", daemon=True).start()  # a stop does not wait for it
        return ()

    @override
    def needs_nginx(self, settings: Settings) -> Iterable[str]:
        own = settings.of(AccessSettings)
        return [variable_names(name, AccessSettings)[0] for name in own.model_fields_set]

    @override
    def nginx(self, start: Start) -> NginxParts:
        own, folder = start.settings.of(AccessSettings), Path(__file__).parent
        allowed = ".+" if own.cors_origins == ("*",) else "|".join(map(re.escape, own.cors_origins or ()))
        places = {"CORS_ORIGINS": allowed, "RESPONSE_HEADERS": self._response_headers}
        part = NginxParts.of(folder, **places) if allowed else NginxParts()
        if own.hosts:
            served = {"SERVED_HOSTS": "; ".join(f"{host} 0" for host in own.hosts)}
            http = part.http + (folder / "hosts.conf").read_text()
            part = replace(part, http=http, places={**part.places, **served}, clients=_UNSERVED)
        return replace(part, asks_always=self._asks(start.settings))

    @override
    def measure(self, run_dir: Path) -> Mapping[Metric, Measured]:
        if self._keys is None:
            return {REQUESTS: {}, LIMITED: {}}
        refused, at_once = self._keys.limited, counts_of_keys(run_dir)
        both = {name: refused[name] + (at_once[name].refused if name in at_once else 0) for name in refused}
        return {REQUESTS: self._keys.let_in, LIMITED: both}

    @override
    def operations(self, settings: Settings, models: Sequence[DescribedModel]) -> Description:
        from lightbox.core.operations import Description

        if not self._asks(settings):
            return Description()
        bearer, basic = ({"type": "http", "scheme": scheme} for scheme in ("bearer", "basic"))
        return Description(
            security={"bearer": bearer, "basic": basic, "key": {"type": "apiKey", "in": "header", "name": "X-API-Key"}}
        )

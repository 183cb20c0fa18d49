"""What nginx bounds besides the sidecar's queue: bodies by number, and addresses where the settings say so."""

from __future__ import annotations

from lightbox.settings import Settings

_ZONE_SIZE = "10m"
"""Room for the counts of 160,000 addresses."""
_TIMES_IN_PROGRESS = 4
"""Bodies of 0.1 to 1 MB that may be arriving or in progress, for each request that the sidecar takes, at least."""


def limits(settings: Settings, room: int, generation: int) -> dict[str, str]:
    """Return the placeholders of nginx.conf: the zones, and what bounds a location that passes requests on."""
    connections, rate = settings.max_connections_per_address, settings.max_rate_per_address
    middling = max(_TIMES_IN_PROGRESS * settings.most_requests, room >> 21)
    zones = [f"limit_conn_zone $middling_body zone=middling_{generation}:64k;"]
    bounds = [f"limit_conn middling_{generation} {middling};"]
    if connections is not None:
        zones.append(f"limit_conn_zone $binary_remote_addr zone=address_{generation}:{_ZONE_SIZE};")
        bounds.append(f"limit_conn address_{generation} {connections};")
    if rate is not None:
        zones.append(f"limit_req_zone $binary_remote_addr zone=rate_{generation}:{_ZONE_SIZE} rate={rate}r/s;")
        bounds.append(f"limit_req zone=rate_{generation} burst={rate} nodelay;")
    # One status for all counts of connections: 403 is told as a lack of room, 429 as too many of one address.
    status = f"limit_conn_status {403 if connections is None else 429};"
    return {"ZONES": " ".join([*zones, status]), "BOUNDS": " ".join(bounds)}

"""How long to wait before the next try."""

from forebay.fleet.settings import FleetSettings


def restart_wait_s(settings: FleetSettings, early_deaths: int) -> float:
    """Wait before a restart after `early_deaths` (1 or more) deaths in a row, each before the replica proved itself."""
    doublings = min(max(early_deaths, 1) - 1, 32)
    return min(settings.restart_backoff_s * 2.0**doublings, settings.restart_backoff_max_s)


def early_deaths_after(settings: FleetSettings, early_deaths: int, ready_s: float) -> int:
    """Count one more death, of a replica that had been ready for `ready_s`."""
    return 1 if ready_s >= settings.restart_backoff_max_s else early_deaths + 1

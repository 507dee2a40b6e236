"""A day of two thermometers, of which one half is read and drawn: `python readings.py DIRECTORY`,
which is created; the picture comes to standard output, as SVG."""

import math
import random
import sys
from datetime import datetime, timedelta
from typing import Iterator

import cleavedb

DAY = datetime(2026, 6, 1)
COLOURS = {"attic": "#C4622D", "cellar": "#2F6FB0"}
WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 640, 260, 40, 10, 60, 25
COLDEST, WARMEST = 5, 35


def key(sensor: str, at: datetime) -> str:
    """Keys are in the order of their bytes: first by sensor, then by time."""
    return f"{sensor}/{at:%Y-%m-%dT%H:%M}"


def readings(sensor: str, mean: float, swing: float) -> Iterator[tuple[str, str]]:
    """A reading of each minute: coldest at 3:00, warmest at 15:00."""
    noise = random.Random(sensor)
    for minute in range(24 * 60):
        degrees = mean + swing * math.sin((minute / 60 - 9) / 24 * 2 * math.pi)
        yield key(sensor, DAY + timedelta(minutes=minute)), f"{degrees + noise.random():.1f}"


def x(at: datetime) -> float:
    return LEFT + (at - DAY - timedelta(hours=6)) / timedelta(hours=12) * (WIDTH - LEFT - RIGHT)


def y(degrees: float) -> float:
    return TOP + (WARMEST - degrees) / (WARMEST - COLDEST) * (HEIGHT - TOP - BOTTOM)


def grid() -> Iterator[str]:
    for degrees in range(COLDEST, WARMEST + 1, 5):
        at = f"{y(degrees):.1f}"
        yield f'<path d="M{LEFT} {at}H{WIDTH - RIGHT}" stroke="#DDDDDD"/>'
        yield f'<text x="{LEFT - 6}" y="{at}" dy="4" text-anchor="end">{degrees}°</text>'
    for hour in range(6, 19, 2):
        at = f"{x(DAY + timedelta(hours=hour)):.1f}"
        yield f'<text x="{at}" y="{HEIGHT - 6}" text-anchor="middle">{hour}:00</text>'


def curve(sensor: str, found: list[tuple[str, str]]) -> Iterator[str]:
    times = [datetime.fromisoformat(at.partition("/")[2]) for at, _ in found]
    degrees = [float(value) for _, value in found]
    points = " ".join(f"{x(at):.1f},{y(of):.1f}" for at, of in zip(times, degrees))
    yield f'<polyline points="{points}" fill="none" stroke="{COLOURS[sensor]}"/>'
    at = f'x="{WIDTH - RIGHT + 6}" y="{y(degrees[-1]):.1f}"'
    yield f'<text {at} dy="4" fill="{COLOURS[sensor]}">{sensor}</text>'


def main(path: str) -> None:
    with cleavedb.open(path) as db:
        text = cleavedb.text(db)
        text.ingest([*readings("attic", 22, 9), *readings("cellar", 11, 2)])
        print(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}"')
        print('     font-family="sans-serif" font-size="12">')
        print('<rect width="100%" height="100%" fill="#FFFFFF"/>')
        print(*grid(), sep="\n")
        for sensor in COLOURS:
            morning, evening = (key(sensor, DAY + timedelta(hours=hour)) for hour in (6, 18))
            print(*curve(sensor, list(text.items(morning, evening))), sep="\n")
        print("</svg>")


if __name__ == "__main__":
    main(sys.argv[1])

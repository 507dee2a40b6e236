"""Django's cache, as with Redis: a value that is computed once, a counter, and what expires.

    cleave-server --dir cache.db &
    pip install -r requirements.txt
    python fruit.py
"""

import os
import time

from django.conf import settings
from django.core.cache import cache

url = os.environ.get("REDIS_URL", "redis://localhost:6379")
backend = "django.core.cache.backends.redis.RedisCache"
settings.configure(CACHES={"default": {"BACKEND": backend, "LOCATION": url}})


def color():
    print("computed")
    return "red"


cache.delete("apple")
print(cache.get_or_set("apple", color), cache.get_or_set("apple", color))
cache.set_many({"visits": 1, "cherry": "dark red"})
print(cache.incr("visits", 2), cache.get_many(["visits", "cherry"]))
cache.touch("cherry", 1)
time.sleep(1.1)
print(cache.get("cherry", "gone"))

"""Jobs of RQ, as with Redis: three texts are queued, and a worker counts their words.

    cleave-server --dir jobs.db &
    pip install -r requirements.txt
    python words.py
"""

import os

from redis import Redis
from rq import Queue, Worker


def count(text):
    return len(text.split())


if __name__ == "__main__":
    redis = Redis.from_url(os.environ.get("REDIS_URL", "redis://localhost:6379"))
    queue = Queue("texts", connection=redis)
    texts = ["apple", "red apple", "a dark red cherry"]
    jobs = queue.enqueue_many([Queue.prepare_data("words.count", (text,)) for text in texts])
    Worker([queue]).work(burst=True, logging_level="WARNING")
    for text, job in zip(texts, jobs):
        print(job.return_value(), text)

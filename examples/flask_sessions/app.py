"""A page that counts the visits of each browser. The sessions are Flask-Session's, as with Redis.

    cleave-server --dir sessions.db &
    pip install -r requirements.txt
    flask run
"""

import os

from flask import Flask, session
from flask_session import Session
from redis import Redis

app = Flask(__name__)
app.config["SESSION_TYPE"] = "redis"
app.config["SESSION_REDIS"] = Redis.from_url(os.environ.get("REDIS_URL", "redis://localhost:6379"))
Session(app)


@app.get("/")
def visits():
    session["visits"] = session.get("visits", 0) + 1
    return f"visit {session['visits']}\n"

"""python3 -m service people | export | serve

`people` makes the people and what they read, `export` prints every account as a line of JSON for `tollgate user import`,
`serve` serves and prints its port. Data is kept in the folder SERVICE_DATA.
"""

import datetime
import json
import os
import socketserver
import sys
from wsgiref import simple_server

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "service.settings")

import django  # noqa: E402

django.setup()

from django.contrib.auth.hashers import make_password  # noqa: E402
from django.core.management import call_command  # noqa: E402
from django.core.wsgi import get_wsgi_application  # noqa: E402
from django.utils import timezone  # noqa: E402

from service.models import Lesson, Passage, User  # noqa: E402
from service.views import pair  # noqa: E402


def make_people():
    call_command("migrate", run_syncdb=True, verbosity=0)
    later = timezone.now() + datetime.timedelta(days=400)
    earlier = timezone.now() - datetime.timedelta(days=1)
    for name, hasher, until, apple, google, verified in [
        ("ada", "default", later, None, None, True),
        ("bob", "argon2", None, None, None, True),
        ("carol", "bcrypt_sha256", later, None, None, False),
        ("dan", None, later, "001234.apple.dan", "1234567", True),
        ("eve", "default", earlier, None, None, True),
    ]:
        password = make_password(f"a password of {name}", hasher=hasher) if hasher else make_password(None)
        User.objects.create(
            email=f"{name}@example.org", username=name, password=password, premium_until=until, apple_subject=apple,
            google_subject=google, is_email_verified=verified, date_joined=datetime.datetime(2024, 5, 6, 7, 8, 9, tzinfo=datetime.timezone.utc))
    # One who came by Apple had a pair of tokens too.
    with open(os.path.join(os.environ["SERVICE_DATA"], "dan.json"), "w") as file:
        json.dump(pair(User.objects.get(username="dan")), file)
    for number in range(1, 41):
        tier = "premium" if number % 3 == 0 else "free"
        Passage.objects.create(title=f"Passage {number} – “Überfahrt”", text=f"Text of {number}. " * 40, tier=tier)
    for number in range(1, 21):
        Lesson.objects.create(title=f"Lesson {number}", tier="free" if number % 2 else None)


def export():
    for user in User.objects.order_by("date_joined", "email"):
        line = {
            "id": str(user.id), "email": user.email, "email_verified": user.is_email_verified, "username": user.username,
            "password_hash": user.password, "created_at": user.date_joined.isoformat(),
        }
        subjects = [("apple", user.apple_subject), ("google", user.google_subject)]
        line["identities"] = [{"provider": name, "subject": subject} for name, subject in subjects if subject]
        if user.is_premium:
            line["tier"] = "premium"
            line["tier_until"] = user.premium_until.isoformat()
        print(json.dumps(line))


def serve():
    class Server(socketserver.ThreadingMixIn, simple_server.WSGIServer):
        daemon_threads = True

    class Handler(simple_server.WSGIRequestHandler):
        def log_message(self, *_):
            pass

    server = simple_server.make_server("127.0.0.1", 0, get_wsgi_application(), Server, Handler)
    print(server.server_port, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    {"people": make_people, "export": export, "serve": serve}[sys.argv[1]]()

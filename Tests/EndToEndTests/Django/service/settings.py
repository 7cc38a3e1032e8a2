import datetime
import os

SECRET_KEY = os.environ.get("SERVICE_SECRET", "a secret of the tests that is long enough")
ALLOWED_HOSTS = ["*"]
ROOT_URLCONF = "service.views"
INSTALLED_APPS = ["django.contrib.auth", "django.contrib.contenttypes", "rest_framework", "service"]
AUTH_USER_MODEL = "service.User"
DATABASES = {
    "default": {"ENGINE": "django.db.backends.sqlite3", "NAME": os.path.join(os.environ["SERVICE_DATA"], "service.sqlite3")}
}
DEFAULT_AUTO_FIELD = "django.db.models.AutoField"
USE_TZ = True
PASSWORD_HASHERS = [
    "django.contrib.auth.hashers.PBKDF2PasswordHasher",
    "django.contrib.auth.hashers.Argon2PasswordHasher",
    "django.contrib.auth.hashers.BCryptSHA256PasswordHasher",
]
REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        os.environ.get("SERVICE_AUTHENTICATION", "rest_framework_simplejwt.authentication.JWTAuthentication")
    ],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PAGINATION_CLASS": "rest_framework.pagination.PageNumberPagination",
    "PAGE_SIZE": 50,
}
SIMPLE_JWT = {"ACCESS_TOKEN_LIFETIME": datetime.timedelta(days=7), "REFRESH_TOKEN_LIFETIME": datetime.timedelta(days=30)}

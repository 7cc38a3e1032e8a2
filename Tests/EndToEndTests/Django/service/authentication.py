import os

from rest_framework.authentication import BaseAuthentication
from rest_framework_simplejwt.authentication import JWTAuthentication

from service.models import User


class CallerAuthentication(BaseAuthentication):
    """The caller that the gateway has verified; without a gateway, the bearer."""

    def authenticate(self, request):
        if os.environ.get("BEHIND_GATEWAY") != "1":
            return JWTAuthentication().authenticate(request)
        name = request.META.get("HTTP_X_USER_ID")
        if name is None:
            return None
        # Who signed up at the gateway has no row here yet.
        user, _ = User.objects.get_or_create(id=name, defaults={"email": f"{name}@accounts.invalid", "password": "!"})
        return user, None

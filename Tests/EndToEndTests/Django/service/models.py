import uuid

from django.contrib.auth.models import AbstractUser
from django.db import models
from django.utils import timezone


class User(AbstractUser):
    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    email = models.EmailField(unique=True)
    is_email_verified = models.BooleanField(default=False)
    apple_subject = models.CharField(max_length=64, null=True, unique=True)
    google_subject = models.CharField(max_length=64, null=True, unique=True)
    premium_until = models.DateTimeField(null=True)

    @property
    def is_premium(self):
        return self.premium_until is not None and self.premium_until > timezone.now()


class Passage(models.Model):
    title = models.CharField(max_length=100)
    text = models.TextField()
    tier = models.CharField(max_length=16)


class Lesson(models.Model):
    title = models.CharField(max_length=100)
    tier = models.CharField(max_length=16, null=True)


class Review(models.Model):
    user = models.ForeignKey(User, on_delete=models.CASCADE)
    passage = models.ForeignKey(Passage, on_delete=models.CASCADE)
    score = models.IntegerField()

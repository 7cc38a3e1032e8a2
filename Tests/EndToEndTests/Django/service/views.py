from django.contrib.auth.hashers import check_password
from django.http import HttpResponse
from django.urls import include, path
from rest_framework import generics, permissions, response, routers, serializers, views, viewsets
from rest_framework_simplejwt.tokens import RefreshToken
from rest_framework_simplejwt.views import TokenRefreshView

from service.models import Lesson, Passage, Review, User


class PassageSerializer(serializers.ModelSerializer):
    class Meta:
        model = Passage
        fields = ["id", "title", "text", "tier"]


class LessonSerializer(serializers.ModelSerializer):
    """Free lessons say so; what says nothing is premium."""

    class Meta:
        model = Lesson
        fields = ["id", "title", "tier"]

    def to_representation(self, lesson):
        shown = super().to_representation(lesson)
        if shown["tier"] is None:
            del shown["tier"]
        return shown


class ReviewSerializer(serializers.ModelSerializer):
    class Meta:
        model = Review
        fields = ["id", "passage", "score"]


class PassageViews(viewsets.ReadOnlyModelViewSet):
    queryset = Passage.objects.order_by("id")
    serializer_class = PassageSerializer


class LessonViews(viewsets.ReadOnlyModelViewSet):
    queryset = Lesson.objects.order_by("id")
    serializer_class = LessonSerializer


class ReviewViews(generics.ListAPIView):
    serializer_class = ReviewSerializer
    permission_classes = [permissions.IsAuthenticated]

    def get_queryset(self):
        return Review.objects.filter(user=self.request.user).order_by("id")


class ProgressView(views.APIView):
    permission_classes = [permissions.IsAuthenticatedOrReadOnly]

    def post(self, request, kind, number):
        review = Review.objects.create(user=request.user, passage_id=number, score=int(request.data["score"]))
        return response.Response({"id": review.id, "kind": kind, "score": review.score}, status=201)

    def get(self, request, kind, number):
        return response.Response({"kind": kind, "reviews": Review.objects.filter(passage_id=number).count()})


class SignInView(views.APIView):
    def post(self, request):
        user = User.objects.filter(email__iexact=request.data.get("email", "")).first()
        if user is None or not check_password(request.data.get("password", ""), user.password):
            return response.Response({"error": {"code": "UNAUTHORIZED", "message": "Invalid email or password"}}, status=401)
        return response.Response(pair(user))


class GoogleView(views.APIView):
    """As allauth and dj-rest-auth have it, but that the provider's token is only the subject."""

    def post(self, request):
        subject = request.data.get("id_token", "")
        user = User.objects.filter(google_subject=subject).first()
        if user is None:
            user = User.objects.create(username=subject, email=f"{subject}@mail.example.org", google_subject=subject)
        return response.Response(pair(user))


class MeView(views.APIView):
    permission_classes = [permissions.IsAuthenticated]

    def get(self, request):
        return response.Response({"id": str(request.user.id), "email": request.user.email, "username": request.user.username})


def plans(request):
    """A page that sells plans, and sends on to Stripe."""
    return HttpResponse("<h1>Plans</h1>")


def broken(request):
    raise ValueError("a fault of the service")


def pair(user):
    refresh = RefreshToken.for_user(user)
    shown = {"id": str(user.id), "email": user.email, "username": user.username, "is_premium": user.is_premium}
    return {"user": shown, "tokens": {"access": str(refresh.access_token), "refresh": str(refresh)}}


router = routers.SimpleRouter()
router.register("passages", PassageViews)
router.register("lessons", LessonViews)
urlpatterns = [
    path("api/v1/auth/login", SignInView.as_view()),
    path("api/v1/auth/refresh", TokenRefreshView.as_view()),
    path("api/v1/auth/google", GoogleView.as_view()),
    path("api/v1/profile/", MeView.as_view()),
    path("api/v1/broken/", broken),
    path("web/plans/", plans),
    path("api/v1/reviews/", ReviewViews.as_view()),
    path("api/v1/progress/<str:kind>/<int:number>/review", ProgressView.as_view()),
    path("api/v1/", include(router.urls)),
]

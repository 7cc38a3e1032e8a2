import java.io.IOException
import java.util.concurrent.TimeUnit
import okhttp3.Headers
import okhttp3.HttpUrl
import okhttp3.Interceptor
import okhttp3.MediaType.Companion.toMediaType
import okhttp3.OkHttpClient
import okhttp3.Request
import okhttp3.RequestBody.Companion.toRequestBody
import okhttp3.Response
import org.json.JSONException
import org.json.JSONObject

/** The tokens of a session; [refresh] is null in a contract without refresh. */
data class Tokens(val access: String, val refresh: String?)

/** Where tokens outlive the app: a file that the Android Keystore encrypts; in tests, memory. */
interface TokenStore {
    fun load(): Tokens?

    /** null removes them. */
    fun save(tokens: Tokens?)
}

/**
 * What differs between the contracts of the gateway: where it is mounted, the names of the tokens in bodies, and the member of a
 * sign-in's answer that holds them, null if they are in the answer itself.
 */
class AuthContract(
    val base: String,
    val access: String,
    val refresh: String?,
    val holder: String? = null,
    val refreshPath: String = "/auth/refresh",
) {
    /** The tokens of an answer; null if it has none. A contract that does not rotate keeps the refresh token that it has given. */
    fun tokens(answer: JSONObject, old: String? = null): Tokens? {
        val body = holder?.let { answer.optJSONObject(it) } ?: answer
        val access = body.text(access) ?: return null
        val name = refresh ?: return Tokens(access, null)
        return Tokens(access, body.text(name) ?: old ?: return null)
    }

    companion object {
        val password = AuthContract("/api/v1", "access", "refresh", holder = "tokens")
        val provider = AuthContract("/whateat/api/v1", "accessToken", "refreshToken")
        val anonymous = AuthContract("", "sessionToken", "refreshToken")
        val dlauth = AuthContract("", "access_token", "refresh_token", holder = "session", refreshPath = "/auth/token/refresh")
        val apple = AuthContract("", "token", null, holder = "body")
    }
}

/** Why there is no answer. OkHttp passes nothing but [IOException] from interceptors. */
sealed class AuthException(message: String) : IOException(message) {
    /** There is no session, or the gateway has ended it: show the sign-in. */
    class SignedOut : AuthException("signed out")

    /** The gateway refused a sign-in, or the account is banned. [code] is for the app, the message for people. */
    class Refused(val status: Int, val code: String, message: String) : AuthException(message)

    /** No answer said whether the session still exists. It is kept: try again later. */
    class Unavailable : AuthException("the gateway gave no answer")
}

/** Keeps a session of the gateway: signs in and out, and gives out a client that adds the access token and refreshes it. */
class AuthManager(
    private val url: HttpUrl,
    private val contract: AuthContract,
    private val store: TokenStore,
    network: OkHttpClient = OkHttpClient(),
    /** The name of this device in the account's list of sessions, like Build.MODEL. */
    private val device: String? = null,
    /** Milliseconds between the tries of a refresh; it doubles. */
    private val pause: Long = 1_000,
) : Interceptor {
    private val plain = network.newBuilder().callTimeout(15, TimeUnit.SECONDS).build()
    private val lock = Any()
    /** Held by the one refresh, for which all requests with an expired token wait. */
    private val flight = Any()
    private var tokens = store.load()

    /** For requests to the gateway. Requests to other hosts go without the token. */
    val client: OkHttpClient = network.newBuilder().addInterceptor(this).build()

    val isSignedIn: Boolean get() = current() != null

    /**
     * Signs in, or registers, at a path of the contract. Returns the answer, which has the user. [keepsAccount]: the request has the
     * access token, so that an anonymous user gets an email and stays who they are. Not on the main thread, like all calls here.
     */
    fun signIn(path: String, body: JSONObject, keepsAccount: Boolean = false): JSONObject {
        val request = request(contract.base + path, body)
        (if (keepsAccount) client else plain).newCall(request).execute().use { response ->
            val answer = response.json()
            if (!response.isSuccessful) throw refusal(answer, response)
            val new = answer?.let { contract.tokens(it) }
            if (answer == null || new == null) throw AuthException.Unavailable()
            keep(new)
            return answer
        }
    }

    /** Signs out here at once. False if the gateway could not be told, where the session then ends by its own time. */
    fun signOut(): Boolean {
        val old = synchronized(lock) { current().also { keep(null) } } ?: return true
        // The refresh token, because the access token may have expired.
        val form = "token=${old.refresh ?: old.access}".toRequestBody("application/x-www-form-urlencoded".toMediaType())
        return try {
            plain.newCall(Request.Builder().url(at("/oauth/revoke")).post(form).build()).execute().use { it.code == 200 }
        } catch (lost: IOException) {
            false
        }
    }

    /** Adds the access token. A request that is refused for it is sent once more with another. */
    override fun intercept(chain: Interceptor.Chain): Response {
        val request = chain.request()
        if (request.url.host != url.host || request.url.port != url.port) return chain.proceed(request)
        val tokens = current() ?: throw AuthException.SignedOut()
        val first = chain.proceed(request.with(tokens))
        if (first.code != 401 || first.asksForSignIn || request.body?.isOneShot() == true) return first
        first.close()
        return chain.proceed(request.with(refreshed(tokens)))
    }

    /** Other tokens than those that were refused: of a refresh that has ended meanwhile, or of one now. */
    private fun refreshed(refused: Tokens): Tokens = synchronized(flight) {
        val tokens = current() ?: throw AuthException.SignedOut()
        if (tokens.access != refused.access) tokens else refresh(tokens)
    }

    private fun refresh(old: Tokens): Tokens {
        val name = contract.refresh
        if (name == null || old.refresh == null) {
            keepIf(old, null)
            throw AuthException.SignedOut()
        }
        val request = request(contract.base + contract.refreshPath, JSONObject().put(name, old.refresh))
        for (attempt in 0 until 3) {
            if (attempt > 0) Thread.sleep(pause shl (attempt - 1))
            // An answer that was lost is asked for again: the gateway repeats it.
            val (status, answer) = try {
                plain.newCall(request).execute().use { it.code to it.json() }
            } catch (lost: IOException) {
                continue
            }
            val new = if (status == 200) answer?.let { contract.tokens(it, old.refresh) } else null
            if (new != null) {
                keepIf(old, new)
                return new
            }
            // Nothing else ends a session: neither 5xx nor 429, nor a page of the hotel's network.
            val (code, message) = answer?.let { code(it) } ?: continue
            if (code == "ACCOUNT_BANNED" || status == 400 || status == 401) {
                keepIf(old, null)
                throw if (code == "ACCOUNT_BANNED") AuthException.Refused(status, code, message) else AuthException.SignedOut()
            }
        }
        if (current() != old) throw AuthException.SignedOut()
        throw AuthException.Unavailable()
    }

    private fun current(): Tokens? = synchronized(lock) { tokens }

    /** In the store first: what is only in memory would be gone with the app. */
    private fun keep(new: Tokens?) = synchronized(lock) {
        try {
            store.save(new)
        } finally {
            tokens = new
        }
    }

    /** Only while [old] are the tokens: the user may have signed out meanwhile. */
    private fun keepIf(old: Tokens, new: Tokens?) = synchronized(lock) {
        if (tokens != old) throw AuthException.SignedOut()
        keep(new)
    }

    private fun at(path: String): HttpUrl = url.newBuilder().encodedPath(url.encodedPath.trimEnd('/') + path).build()

    private fun request(path: String, body: JSONObject): Request {
        val builder = Request.Builder().url(at(path)).post(body.toString().toRequestBody("application/json".toMediaType()))
        // Names of devices are not always ASCII, which `header` demands.
        if (device != null) {
            builder.headers(Headers.Builder().addUnsafeNonAscii("X-Device-Name", device.filterNot(Char::isISOControl)).build())
        }
        return builder.build()
    }

    private fun Request.with(tokens: Tokens): Request = newBuilder().header("Authorization", "Bearer ${tokens.access}").build()

    /** Whether the route wants a newer sign-in (RFC 9470), which no refresh gives. */
    private val Response.asksForSignIn: Boolean
        get() = headers("WWW-Authenticate").any { "insufficient_user_authentication" in it }

    private fun Response.json(): JSONObject? = try {
        body?.string()?.let { JSONObject(it) }
    } catch (malformed: JSONException) {
        null
    }

    private fun refusal(answer: JSONObject?, response: Response): AuthException {
        val (code, message) = answer?.let { code(it) } ?: return AuthException.Unavailable()
        return if (response.code < 500) AuthException.Refused(response.code, code, message) else AuthException.Unavailable()
    }

    /** Code and message of a refusal in the form of any contract. */
    private fun code(answer: JSONObject): Pair<String, String>? {
        val nested = answer.optJSONObject("error")
        if (nested != null) return nested.text("code")?.let { it to (nested.text("message") ?: "") }
        val error = answer.text("error") ?: return null
        return (answer.text("code") ?: error) to (answer.text("message") ?: error)
    }
}

private fun JSONObject.text(name: String): String? = opt(name) as? String

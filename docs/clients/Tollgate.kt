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
import okio.ByteString.Companion.decodeBase64
import org.json.JSONArray
import org.json.JSONException
import org.json.JSONObject

/** The tokens of a sign-in; [refresh] is null in a contract without refresh. Their [contract] refreshes them. */
data class Tokens(val access: String, val refresh: String?, val contract: AuthContract) {
    /** The id of the account, as the access token has it. */
    val account: String?
        get() = try {
            access.split(".").takeIf { it.size == 3 }?.get(1)?.decodeBase64()?.let { JSONObject(it.utf8()).text("sub") }
        } catch (malformed: JSONException) {
            null
        }
}

/**
 * What is kept of a device's user: [tokens], null if nobody is signed in, and those of guests who signed in to another account, until
 * they are merged into it.
 */
data class Session(val tokens: Tokens? = null, val guests: List<Tokens> = emptyList()) {
    /** As text, for the store. */
    fun text(): String = JSONObject().put("tokens", tokens?.let(::json)).put("guests", JSONArray(guests.map(::json))).toString()

    companion object {
        fun of(text: String): Session {
            val whole = JSONObject(text)
            val guests = whole.getJSONArray("guests")
            return Session(whole.optJSONObject("tokens")?.let(::tokens), List(guests.length()) { tokens(guests.getJSONObject(it)) })
        }

        private fun json(tokens: Tokens) = with(tokens.contract) {
            JSONObject().put("access", tokens.access).put("refresh", tokens.refresh).put("base", base).put("accessName", access)
                .put("refreshName", refresh).put("holder", holder).put("refreshPath", refreshPath).put("opensGuests", opensGuests)
        }

        private fun tokens(kept: JSONObject) = Tokens(
            kept.getString("access"), kept.text("refresh"),
            AuthContract(
                kept.getString("base"), kept.getString("accessName"), kept.text("refreshName"), kept.text("holder"),
                kept.getString("refreshPath"), kept.getBoolean("opensGuests"),
            ),
        )
    }
}

/** Where [Session.text] outlives the app: a file that the Android Keystore encrypts; in tests, memory. */
interface TokenStore {
    fun load(): String?
    fun save(text: String)
}

/**
 * What differs between the contracts of the gateway: where it is mounted, the names of the tokens in bodies, and the member of a
 * sign-in's answer that holds them, null if they are in the answer itself. [opensGuests]: it opens accounts for which nothing but their
 * tokens signs in.
 */
data class AuthContract(
    val base: String,
    val access: String,
    val refresh: String?,
    val holder: String? = null,
    val refreshPath: String = "/auth/refresh",
    val opensGuests: Boolean = false,
) {
    /** The tokens of an answer; null if it has none. A contract that does not rotate keeps the refresh token that it has given. */
    fun tokens(answer: JSONObject, old: String? = null): Tokens? {
        val body = holder?.let { answer.optJSONObject(it) } ?: answer
        val access = body.text(access) ?: return null
        val name = refresh ?: return Tokens(access, null, this)
        return Tokens(access, body.text(name) ?: old ?: return null, this)
    }

    companion object {
        val password = AuthContract("/api/v1", "access", "refresh", holder = "tokens")
        val provider = AuthContract("/whateat/api/v1", "accessToken", "refreshToken")
        val anonymous = AuthContract("", "sessionToken", "refreshToken", opensGuests = true)
        val dlauth = AuthContract("", "access_token", "refresh_token", holder = "session", refreshPath = "/auth/token/refresh")
        val apple = AuthContract("", "token", null, holder = "body")
    }
}

/** Why there is no answer. OkHttp passes nothing but [IOException] from interceptors. */
sealed class AuthException(message: String) : IOException(message) {
    /** There is no session, or the gateway has ended it: show the sign-in. */
    class SignedOut : AuthException("signed out")

    /**
     * The gateway refused a sign-in or a merge, or a refresh for its proof of the device's key (`DEVICE_PROOF_REQUIRED`), which ends no
     * session. [code] is for the app (`ACCOUNT_BANNED`, `NOT_A_GUEST`), the message for people.
     */
    class Refused(val status: Int, val code: String, message: String) : AuthException(message)

    /** No answer said whether the session still exists. It is kept: try again later. */
    class Unavailable : AuthException("the gateway gave no answer")
}

/** Keeps a session of the gateway: signs in and out, and gives out a client that adds the access token and refreshes it. */
class AuthManager(
    private val url: HttpUrl,
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
    private var session = store.load()?.let { Session.of(it) } ?: Session()

    /** For requests to the gateway. Requests to other hosts go without the token. */
    val client: OkHttpClient = network.newBuilder().addInterceptor(this).build()

    val isSignedIn: Boolean get() = current() != null

    /** Whether a guest of this device can be merged into the account that has signed in since. */
    val hasGuest: Boolean get() = guests().isNotEmpty()

    /**
     * Signs in, or registers, at a path of the contract. Returns the answer, which has the user. [keepsAccount]: the request has the
     * access token, so that a guest gets an email or an identity and keeps the account. If the sign-in leads to another account, the
     * guest's tokens are kept for [mergeGuest]. Not on the main thread, like all calls here.
     */
    fun signIn(contract: AuthContract, path: String, body: JSONObject, keepsAccount: Boolean = false): JSONObject {
        val request = request(contract.base + path, body).let { if (keepsAccount) it.with(renewed()) else it }
        return plain.newCall(request).execute().use { adopt(contract, it) }
    }

    /** Signs in with the gateway's answer to a request that the app has sent itself, like that of a passkey. Returns its body. */
    fun adopt(contract: AuthContract, response: Response): JSONObject {
        val answer = response.json()
        if (!response.isSuccessful) throw refusal(answer, response.code)
        val new = answer?.let { contract.tokens(it) }
        if (answer == null || new == null) throw AuthException.Unavailable()
        synchronized(lock) {
            val former = listOfNotNull(session.tokens?.takeIf { it.contract.opensGuests })
            keep(Session(new, (session.guests + former).filter { it.account == null || it.account != new.account }))
        }
        return answer
    }

    /**
     * Merges the guest into the account that is signed in: ask the user before. [path] is that of `TOLLGATE_ACCOUNT`. After a lost
     * answer it can be called again.
     */
    fun mergeGuest(path: String = "/account") {
        for (guest in guests()) {
            val body = JSONObject().put("guest_token", guest.refresh ?: guest.access)
            client.newCall(request("$path/merge", body)).execute().use { response ->
                val answer = response.json()
                if (response.code == 200 && answer?.has("merged_from") == true) return@use replace(guest, null)
                val refusal = refusal(answer, response.code)
                // 400: its session has ended. 409: it has become an account that something signs in to.
                if (refusal is AuthException.Refused && response.code in setOf(400, 409)) replace(guest, null)
                throw refusal
            }
        }
    }

    /** Drops the tokens of the guest, which the user does not want to merge: nothing signs in to its account any more. */
    fun forgetGuest() = synchronized(lock) { keep(Session(session.tokens)) }

    /**
     * Signs out here at once, and drops a guest who was not merged. False if the gateway could not be told, where the session then ends
     * by its own time.
     */
    fun signOut(): Boolean {
        val old = synchronized(lock) { session.tokens.also { keep(Session()) } } ?: return true
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

    /**
     * Tokens for a sign-in that keeps the account. It ignores an access token that has expired and opens another account, and the
     * device's clock may be wrong: so they are refreshed in any case.
     */
    private fun renewed(): Tokens {
        val tokens = current() ?: throw AuthException.SignedOut()
        return if (tokens.refresh == null) tokens else refreshed(tokens)
    }

    /** Other tokens than those that were refused: of a refresh that has ended meanwhile, or of one now. */
    private fun refreshed(refused: Tokens): Tokens = synchronized(flight) {
        val tokens = current() ?: throw AuthException.SignedOut()
        if (tokens.access != refused.access) tokens else refresh(tokens)
    }

    private fun refresh(old: Tokens): Tokens {
        val contract = old.contract
        if (contract.refresh == null || old.refresh == null) {
            replace(old, null)
            throw AuthException.SignedOut()
        }
        val request = request(contract.base + contract.refreshPath, JSONObject().put(contract.refresh, old.refresh))
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
                replace(old, new)
                return new
            }
            // Nothing else ends a session: neither 5xx nor 429, nor a page of the hotel's network.
            val refused = answer?.let { code(it) }?.first
            if (status in setOf(400, 401) && refused != null) {
                // The session goes on: the app can send a proof of the device's key, or let the user sign in.
                if (refused.startsWith("DEVICE_PROOF_", ignoreCase = true)) throw refusal(answer, status)
                replace(old, null)
                throw AuthException.SignedOut()
            }
        }
        if (current() != old) throw AuthException.SignedOut()
        throw AuthException.Unavailable()
    }

    private fun current(): Tokens? = synchronized(lock) { session.tokens }

    private fun guests(): List<Tokens> = synchronized(lock) { session.guests }

    /** In the store first: what is only in memory would be gone with the app. */
    private fun keep(new: Session) = synchronized(lock) {
        try {
            store.save(new.text())
        } finally {
            session = new
        }
    }

    /** Replaces tokens where they are kept: a sign-in may have made them a guest's meanwhile, a sign-out have removed them. */
    private fun replace(old: Tokens, new: Tokens?) = synchronized(lock) {
        when (old) {
            session.tokens -> keep(session.copy(tokens = new))
            in session.guests -> keep(session.copy(guests = session.guests.mapNotNull { if (it == old) new else it }))
            else -> throw AuthException.SignedOut()
        }
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

    private fun refusal(answer: JSONObject?, status: Int): AuthException {
        val (code, message) = answer?.let { code(it) } ?: return AuthException.Unavailable()
        return if (status < 500) AuthException.Refused(status, code, message) else AuthException.Unavailable()
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

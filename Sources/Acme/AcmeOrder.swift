package import Credentials
package import Wire

/// The certificate that is ordered, where and how.
package struct AcmePlan: Sendable {
    package var directory: String
    /// A host name, `*.` and one, or an address.
    package var name: String
    package var challenge: AcmeChallengeKind
    package var email: String?
    package var profile: String?
    /// The common name of the root that the chain is to end at.
    package var root: String?
    package var binding: AcmeBinding?
    /// The certificate that the new one replaces (RFC 9773 §5).
    package var replaces: String?

    package init(directory: String, name: String, challenge: AcmeChallengeKind) {
        (self.directory, self.name, self.challenge) = (directory, name, challenge)
    }
}

/// One order of a certificate (RFC 8555), from the directory to the chain. Pure: each event is answered by the next step.
package struct AcmeOrder: Sendable {
    package enum Step: Sendable {
        /// Send this, and call `answered`.
        case send(AcmeRequest)
        /// Have the response to the challenge found everywhere, and call `presented`.
        case present(AcmeChallenge)
        /// Wait for so many milliseconds, and call `resumed`.
        case pause(UInt64)
        case issued(IssuedCertificate, key: SigningKey)
        case failed(AcmeFailure)
    }

    fileprivate enum Phase {
        case directory, nonce, account, order, authorization, challenge, poll, finalize, finalPoll, certificate, alternate
    }

    /// A request that may have to be signed again with another nonce.
    private struct Post {
        var url: String
        var payload: [UInt8] = []
        var phase: Phase
    }

    /// In a row: a server that refuses more is broken.
    private static let mostBadNonces = 40
    /// At least a second apart.
    private static let mostPolls = 120
    private static let mostAuthorizations = 4
    private static let mostAlternates = 8

    private var plan: AcmePlan
    private let account: AcmeAccount
    private let key: SigningKey
    private var phase = Phase.directory
    private var post = Post(url: "", phase: .account)
    private var nonce: String?
    private var badNonces = 0
    private var polls = 0
    private var directory = JSONTree.null
    private var kid: String?
    private var order = (url: "", finalize: "", hasBegun: false)
    private var authorizations: [String] = []
    private var challenge = ""
    private var alternates: [String] = []
    private var issued: IssuedCertificate?

    /// `key` is the new key of the certificate.
    package init(_ plan: AcmePlan, _ account: AcmeAccount, key: SigningKey) {
        (self.plan, self.account, self.key) = (plan, account, key)
    }

    package mutating func begin() -> Step { .send(.get(plan.directory)) }

    /// The response to the challenge is found everywhere.
    package mutating func presented() -> Step { send(challenge, Array("{}".utf8), .challenge) }

    /// The pause is over.
    package mutating func resumed() -> Step {
        phase == .finalPoll || phase == .finalize ? send(order.url, [], .finalPoll) : send(authorizations.first ?? "", [], .poll)
    }

    package mutating func answered(_ response: AcmeResponse, now: WallTime) -> Step {
        if let problem = response.problem { return fail(.unreachable, "\(plan.directory) cannot be asked: \(problem)") }
        nonce = response.nonce ?? nonce
        guard response.isSuccess else { return refused(response, now) }
        if phase != .nonce { badNonces = 0 }
        switch phase {
        case .directory: return readDirectory(response)
        case .nonce: return response.nonce == nil ? broken("no nonce") : send(post.url, post.payload, post.phase)
        case .account: return readAccount(response)
        case .order: return readOrder(response)
        case .authorization: return readAuthorization(response)
        case .challenge: return pause(response, now)
        case .poll: return readPoll(response, now)
        case .finalize, .finalPoll: return readFinal(response, now)
        case .certificate, .alternate: return readCertificate(response)
        }
    }

    // MARK: sending

    /// Signs and sends a request, for which a nonce is fetched if none is left.
    private mutating func send(_ url: String, _ payload: [UInt8], _ next: Phase) -> Step {
        post = Post(url: url, payload: payload, phase: next)
        guard !url.isEmpty else { return broken("no address of what comes next") }
        guard let nonce else {
            phase = .nonce
            guard let url = directory["newNonce"].text else { return broken("no newNonce") }
            return .send(.get(url))
        }
        phase = next
        self.nonce = nil
        do throws(KeyFault) {
            return .send(AcmeRequest(url: url, body: try account.signed(payload, url: url, nonce: nonce, kid: kid)))
        } catch {
            return fail(.here, error.message)
        }
    }

    private mutating func refused(_ response: AcmeResponse, _ now: WallTime) -> Step {
        let problem = response.json
        let type = problem["type"].text?.split(separator: ":").last ?? ""
        if type == "badNonce", phase != .nonce, badNonces < Self.mostBadNonces {
            badNonces += 1
            return send(post.url, post.payload, post.phase)
        }
        if phase == .order, plan.replaces != nil, type == "alreadyReplaced" || response.status == 409 || type == "malformed" {
            // The order is worth more than what it says of the certificate before.
            plan.replaces = nil
            return newOrder()
        }
        // The chain that the server prefers is better than none.
        if phase == .alternate, let issued { return .issued(issued, key: key) }
        var failure = AcmeFailure(problem: problem, status: response.status, doing: "the authority refuses \(phase.object)")
        failure.retryAfter = response.seconds(at: now)
        return fail(failure)
    }

    private func fail(_ cause: AcmeFailure.Cause, _ sentence: String) -> Step { fail(AcmeFailure(cause, sentence)) }

    private func fail(_ failure: AcmeFailure) -> Step {
        var failure = failure
        failure.hadOrder = order.hasBegun
        return .failed(failure)
    }

    private func broken(_ lack: String) -> Step { fail(.server, "\(plan.directory) breaks the protocol (RFC 8555): \(lack)") }

    /// Asks again after the time that the server gives, at least a second, so often at most.
    private mutating func pause(_ response: AcmeResponse, _ now: WallTime) -> Step {
        polls += 1
        guard polls <= Self.mostPolls else { return fail(.server, "the authority has not decided within \(Self.mostPolls) questions") }
        return .pause(UInt64(min(max(response.seconds(at: now) ?? 1, 1), 30)) * 1_000)
    }
}

// The steps of the protocol.
extension AcmeOrder {
    private mutating func readDirectory(_ response: AcmeResponse) -> Step {
        directory = response.json
        guard let url = directory["newAccount"].text else {
            return fail(.server, "\(plan.directory) is no ACME directory: it names no newAccount")
        }
        let profiles = directory["meta"]["profiles"]
        if let profile = plan.profile, !profiles.names.contains(profile) {
            let known = profiles.names.isEmpty ? "it has none" : "it has \(profiles.names.prefix(16).joined(separator: ", "))"
            return fail(.order, "the authority has no profile \(profile); \(known)")
        }
        if directory["meta"]["externalAccountRequired"].bool == true, plan.binding == nil {
            return fail(.account, "the authority wants an external account, set TOLLGATE_ACME_EAB")
        }
        var json = JSONWriter()
        json.beginObject()
        json.field("termsOfServiceAgreed", true)
        if let email = plan.email { json.array("contact", ["mailto:\(email)"]) { $0.string($1) } }
        if let binding = plan.binding {
            do throws(KeyFault) {
                let bound = try account.binding(binding, url: url)
                json.key("externalAccountBinding")
                json.verbatim(bound.rawBytes)
            } catch {
                return fail(.here, error.message)
            }
        }
        json.endObject()
        return send(url, json.finish().readable.array, .account)
    }

    /// The server answers with the account of the key, whether it is new or not.
    private mutating func readAccount(_ response: AcmeResponse) -> Step {
        guard let location = response.location else { return broken("no Location of the account") }
        kid = location
        return newOrder()
    }

    private mutating func newOrder() -> Step {
        var json = JSONWriter()
        json.beginObject()
        let type = IPAddress(parsing: plan.name) == nil ? "dns" : "ip"
        json.array("identifiers", [plan.name]) { json, name in
            json.beginObject()
            json.field("type", type)
            json.field("value", name)
            json.endObject()
        }
        json.optional("profile", plan.profile)
        json.optional("replaces", plan.replaces)
        json.endObject()
        return send(directory["newOrder"].text ?? "", json.finish().readable.array, .order)
    }

    private mutating func readOrder(_ response: AcmeResponse) -> Step {
        let json = response.json
        guard let url = response.location, let last = json["finalize"].text else { return broken("no Location or finalize of the order") }
        order = (url, last, true)
        authorizations = json["authorizations"].elements.compactMap(\.text)
        guard 1...Self.mostAuthorizations ~= authorizations.count else {
            return broken("\(authorizations.count) authorizations of one name")
        }
        return json["status"].text == "ready" ? finalize() : send(authorizations[0], [], .authorization)
    }

    private mutating func readAuthorization(_ response: AcmeResponse) -> Step {
        let json = response.json
        switch json["status"].text {
        case "valid": return authorized()
        case "pending": break
        default: return invalid(json)
        }
        let offered = json["challenges"].elements
        guard let chosen = offered.first(where: { $0["type"].text == plan.challenge.type }), let url = chosen["url"].text,
            let token = chosen["token"].text, token.utf8.allSatisfy(\.standsInTokens), 1...256 ~= token.utf8.count
        else {
            let known = offered.compactMap { $0["type"].text }.prefix(8).joined(separator: ", ")
            return fail(.order, "the authority offers no challenge \(plan.challenge.rawValue) for \(plan.name), but \(known)")
        }
        challenge = url
        // One that was tried is not tried again: the server is still looking.
        if chosen["status"].text == "processing" { return send(authorizations[0], [], .poll) }
        return .present(
            AcmeChallenge(kind: plan.challenge, name: plan.name, token: token, authorization: account.authorization(of: token)))
    }

    private mutating func readPoll(_ response: AcmeResponse, _ now: WallTime) -> Step {
        let json = response.json
        switch json["status"].text {
        case "valid": return authorized()
        case "pending", "processing": return pause(response, now)
        default: return invalid(json)
        }
    }

    /// The server's judgement of a challenge says why.
    private func invalid(_ authorization: JSONTree) -> Step {
        let error = authorization["challenges"].elements.first { $0["error"].isObject }?["error"] ?? .null
        return fail(AcmeFailure(problem: error, doing: "the challenge \(plan.challenge.rawValue) for \(plan.name) has failed"))
    }

    private mutating func authorized() -> Step {
        authorizations.removeFirst()
        return authorizations.isEmpty ? finalize() : send(authorizations[0], [], .authorization)
    }

    private mutating func finalize() -> Step {
        do throws(KeyFault) {
            let request = try CertificateRequest.der(names: [plan.name], key: key)
            var json = JSONWriter()
            json.beginObject()
            json.field("csr", Base64URL.encode(request.rawBytes))
            json.endObject()
            return send(order.finalize, json.finish().readable.array, .finalize)
        } catch {
            return fail(.here, error.message)
        }
    }

    private mutating func readFinal(_ response: AcmeResponse, _ now: WallTime) -> Step {
        let json = response.json
        switch json["status"].text {
        case "valid": return send(json["certificate"].text ?? "", [], .certificate)
        case "processing", "ready", "pending": return pause(response, now)
        default: return fail(AcmeFailure(problem: json["error"], doing: "the order for \(plan.name) is no longer valid"))
        }
    }

    /// Of several chains, the one that ends at the root that is wanted, else the first.
    private mutating func readCertificate(_ response: AcmeResponse) -> Step {
        let chain = IssuedCertificate(pem: response.body)
        if let chain, chain.belongs(to: key) {
            if phase == .certificate { alternates = Array(response.alternates.prefix(Self.mostAlternates)) }
            if plan.root == nil || chain.root == plan.root { return .issued(chain, key: key) }
            issued = issued ?? chain
        } else if phase == .certificate {
            return broken("the certificate is none, or for another key")
        }
        guard let next = alternates.first else { return issued.map { .issued($0, key: key) } ?? broken("no certificate") }
        alternates.removeFirst()
        return send(next, [], .alternate)
    }
}

extension AcmeOrder.Phase {
    /// The object of the request.
    fileprivate var object: String {
        switch self {
        case .directory: "its directory"
        case .nonce: "a nonce"
        case .account: "the account"
        case .order: "the order"
        case .authorization, .poll: "the authorization"
        case .challenge: "the challenge"
        case .finalize, .finalPoll: "the request for the certificate"
        case .certificate, .alternate: "the certificate"
        }
    }
}

extension UInt8 {
    /// The letters of base64url.
    fileprivate var standsInTokens: Bool { isASCIILetter || isASCIIDigit || self == UInt8(ascii: "-") || self == UInt8(ascii: "_") }
}

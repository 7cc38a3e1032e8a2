import Accounts
import Credentials
import Gate
import HTTP
import Wire

/// The `dlauth` contract: accounts with email, phone and metadata, codes for several purposes, and rotating refresh tokens.
struct DLAuthContract: AccountCalls {
    private static let id = ContractID.dlauth
    private static let dialect = Dialect.dlauth
    private static let (signUpProof, refreshProof) = (ProofUse.signIn(400), ProofUse.refresh(401))

    /// `TOLLGATE_DLAUTH_PATH_<ENDPOINT>` replaces any of these paths.
    static let rows = [
        row("sign-up", .post, "/auth/signup", proof: signUpProof, signUp),
        row("sign-in", .post, "/auth/signin", proof: .signIn(401), signIn),
        row("sign-out", .post, "/auth/signout", auth: .required, signOut), row("user", .get, "/auth/user", auth: .required, user),
        row("resend-otp", .post, "/auth/otp/resend", auth: .optional, resendOTP),
        row("verify-otp", .post, "/auth/otp/verify", auth: .optional, proof: .signIn(401), verifyOTP),
        row("forgot-password", .post, "/auth/password/forgot", forgotPassword),
        row("reset-password", .post, "/auth/password/reset", proof: .signIn(401), resetPassword),
        row("update-password", .put, "/auth/password/update", auth: .required, updatePassword),
        row("refresh-session", .post, "/auth/token/refresh", isRefresh: true, proof: refreshProof, refreshSession),
    ]

    private static func row(
        _ name: String, _ method: HTTP.Method, _ path: String, auth: AuthMode = .none, isRefresh: Bool = false,
        proof: ProofUse = .none, _ answer: @escaping @Sendable (Self) -> (ContractRequest) async throws(Failure) -> LocalResponse
    ) -> CatalogueEndpoint {
        CatalogueEndpoint(
            owner: .contract(id), name: name, dialect: dialect, method: method, path: path, hasSettablePath: true, auth: auth,
            isRefresh: isRefresh, proof: proof
        ) { services, request throws(Failure) in try await answer(Self(services: services))(request) }
    }

    fileprivate let services: ContractServices

    var dialect: Dialect { Self.dialect }

    // MARK: signing up, in and out

    private func signUp(_ request: ContractRequest) async throws(Failure) -> LocalResponse {
        let email = try email(required("email", of: request))
        var registration = Registration(email: email, password: try password("password", of: request))
        if let json = try request.json("metadata") { registration.metadata = try metadata(json) }
        registration.username = try username(request, email)
        registration.guest = try await services.guest(of: request, at: Self.signUpProof)
        let signedIn = try await call(
            await services.passwords.signUp(
                registration, rules: .length, contract: Self.id, mustConfirmEmail: services.mustConfirmEmail,
                caller: request.caller)
        ) { (refusal: SignUpRefusal) in
            switch refusal {
            case .unfitPassword(let faults): Self.unfit(faults)
            case .emailTaken: Failure(422, "user_already_exists", "A user with this email already exists")
            }
        }
        // The client shows "enter the code" at once. Only a sign-up that was made sends one: the answer tells no more.
        await services.codes.sendForSignUp(to: email, caller: request.caller)
        return DLAuthAnswer.session(signedIn.account, signedIn.grant)
    }

    /// The name to sign in with: `username`, else that in the metadata, else the part of the email before `@`.
    private func username(_ request: ContractRequest, _ email: EmailAddress) throws(Failure) -> Username? {
        if let text = try request.text("username"),
            let name = try parse(try Username(text), or: .malformed("Username is not a valid username", in: dialect))
        {
            return name
        }
        // Metadata is the app's own: a member there that is no name is no fault.
        let texts = [try? request.text("username", in: "metadata"), email.localPart].compactMap(\.self)
        return texts.lazy.compactMap { text in try? Username(text) }.first
    }

    private func signIn(_ request: ContractRequest) async throws(Failure) -> LocalResponse {
        let name = try signInName(request)
        let password = try password("password", of: request)
        let signedIn = try await call(
            await services.passwords.signIn(
                name, password, contract: Self.id, mustConfirmEmail: services.mustConfirmEmail, caller: request.caller)
        ) { (refusal: SignInRefusal) in
            switch refusal {
            case .invalidCredentials: Failure(401, "invalid_credentials", "Invalid email or password")
            }
        }
        return DLAuthAnswer.session(signedIn.account, signedIn.grant)
    }

    /// The published client sends either `email` or `username`.
    private func signInName(_ request: ContractRequest) throws(Failure) -> SignInName {
        if try request.text("email") == nil, let text = try request.text("username"),
            let name = try parse(try Username(text), or: .malformed("Username is not a valid username", in: dialect))
        {
            return .username(name)
        }
        return .email(try email(required("email", of: request)))
    }

    private func signOut(_ request: ContractRequest) async throws(Failure) -> LocalResponse {
        try await signOut(request, refreshToken: "refresh_token", services)
        return DLAuthAnswer.message("Successfully signed out")
    }

    private func user(_ request: ContractRequest) async throws(Failure) -> LocalResponse {
        let user = try request.person().user
        guard let account = try await call(await services.accounts.account(user)) else { throw Self.noUser }
        return DLAuthAnswer.user(account)
    }

    private func refreshSession(_ request: ContractRequest) async throws(Failure) -> LocalResponse {
        let token = try required("refresh_token", of: request)
        let granted = try await call(
            await services.sessions.refresh(token, contract: Self.id, caller: request.caller)
        ) { (refusal: RefreshTokenRefusal) in
            switch refusal {
            case .invalid: Failure(401, "invalid_token", "Invalid refresh token")
            case .expired: Failure(401, "token_expired", "Refresh token has expired")
            case .unproven(let fault): services.unproven(fault, request, at: Self.refreshProof)
            }
        }
        return DLAuthAnswer.refreshed(granted)
    }

    // MARK: codes

    private func resendOTP(_ request: ContractRequest) async throws(Failure) -> LocalResponse {
        _ = try request.session()
        let otp = try otp(request)
        // Only a session can redeem such a code. Without this check anyone could have messages sent to any number.
        if otp.changesContact { try await requireRecentSignIn(request, services) }
        // A new address has no account yet; every other code goes only to the account that has the address.
        let audience: Codes.Audience = otp.changesContact ? .anyone : .holders
        try await call(await services.codes.send(otp.purpose, to: otp.recipient, audience, caller: request.caller))
        return DLAuthAnswer.message("OTP sent successfully")
    }

    private func verifyOTP(_ request: ContractRequest) async throws(Failure) -> LocalResponse {
        let session = try request.session()
        let otp = try otp(request)
        let code = try required("token", of: request)
        let proof = try proof(otp, session)
        if otp.changesContact { try await requireRecentSignIn(request, services) }
        let granted = try await call(
            await services.codes.verify(
                code, otp.purpose, of: otp.recipient, for: proof, contract: Self.id, session: session,
                caller: request.caller)
        ) { (refusal: CodeRefusal) in
            switch refusal {
            case .invalidCode: Failure(401, "invalid_token", "The code is wrong, spent or expired")
            case .contact(.noAccount): Self.noUser
            case .contact(.taken):
                Failure(422, "user_already_exists", "A user with this \(otp.purpose.isForPhones ? "phone" : "email") already exists")
            case .contact(.callerGone): Failure(.unauthorized(.revoked), in: Self.dialect)
            }
        }
        return DLAuthAnswer.session(granted.account, granted.grant)
    }

    private func proof(_ otp: OTP, _ session: CallerSession?) throws(Failure) -> ContactProof {
        switch otp.purpose {
        case .signUp, .email, .recovery, .sms, .link: return .signIn(caller: session?.user)
        case .emailChange, .phoneChange:
            guard let session else { throw Failure(.unauthorized(.missing), in: Self.dialect) }
            return .change(caller: session.user)
        }
    }

    // MARK: passwords

    private func forgotPassword(_ request: ContractRequest) async throws(Failure) -> LocalResponse {
        let email = try email(required("email", of: request))
        try await call(await services.resets.forgot(email, caller: request.caller))
        return DLAuthAnswer.message("Password reset email sent")
    }

    private func resetPassword(_ request: ContractRequest) async throws(Failure) -> LocalResponse {
        let token = try required("token", of: request)
        let password = try password("new_password", of: request)
        let granted = try await call(
            await services.resets.reset(
                token: token, to: password, rules: .length, contract: Self.id, caller: request.caller)
        ) { (refusal: PasswordResetRefusal) in
            switch refusal {
            case .unfitPassword(let faults): Self.unfit(faults)
            case .invalidToken: Failure(401, "invalid_token", "The reset token is wrong, spent or expired")
            }
        }
        return DLAuthAnswer.session(granted.account, granted.grant)
    }

    private func updatePassword(_ request: ContractRequest) async throws(Failure) -> LocalResponse {
        _ = try request.requiredSession()
        let password = try password("new_password", of: request)
        let session = try await requireRecentSignIn(request, services)
        let granted = try await call(
            await services.passwords.changePassword(
                to: password, rules: .length, session: session, caller: request.caller)
        ) { (refusal: PasswordChangeRefusal) in
            switch refusal {
            case .unfitPassword(let faults): Self.unfit(faults)
            case .sessionEnded: Failure(.unauthorized(.revoked), in: Self.dialect)
            }
        }
        return DLAuthAnswer.session(granted.account, granted.grant)
    }

    // MARK: members

    private func required(_ name: String, of request: ContractRequest) throws(Failure) -> String {
        guard let text = try request.text(name), !text.isEmpty else { throw Self.missing(name) }
        return text
    }

    /// `Email is required`, `New password is required`.
    private static func missing(_ name: String) -> Failure {
        let words = name.replacing("_", with: " ")
        return .malformed("\(words.prefix(1).uppercased())\(words.dropFirst()) is required", in: dialect)
    }

    private func email(_ text: String) throws(Failure) -> EmailAddress {
        try parse(try EmailAddress(text), or: .malformed("Email is not a valid email address", in: dialect))
    }

    private func password(_ name: String, of request: ContractRequest) throws(Failure) -> Password {
        let text = try required(name, of: request)
        do throws(PasswordFault) { return try Password(text) } catch { throw Self.unfit([error]) }
    }

    private func metadata(_ json: [UInt8]) throws(Failure) -> Metadata {
        do throws(Metadata.Fault) {
            return try Metadata(json: json.rawBytes)
        } catch {
            switch error {
            case .malformed: throw .malformed("Metadata must be a JSON object of plain values", in: Self.dialect)
            case .tooLarge: throw .malformed("Metadata must not be larger than 16 KiB", in: Self.dialect)
            }
        }
    }

    // MARK: failures

    private static let noUser = Failure(404, "user_not_found", "User not found")

    private static func unfit(_ faults: [PasswordFault]) -> Failure {
        .malformed(faults.map(sentence).joined(separator: "; "), in: dialect)
    }

    private static func sentence(_ fault: PasswordFault) -> String {
        switch fault {
        case .tooShort: "Password must have at least \(Password.shortest) characters"
        case .tooLong: "Password must have at most \(Password.longest) bytes"
        case .sameAsEmail: "Password must not be the email"
        case .tooCommon: "Password is too common"
        case .entirelyNumeric: "Password must not be digits alone"
        }
    }
}

extension DLAuthContract {
    /// The purpose and recipient of a code.
    private struct OTP {
        let purpose: CodePurpose
        let recipient: Recipient

        /// Whether the code adds an address to the caller's account, or replaces its address.
        var changesContact: Bool {
            switch purpose {
            case .emailChange, .phoneChange: true
            case .signUp, .email, .recovery, .sms, .link: false
            }
        }
    }

    private func otp(_ request: ContractRequest) throws(Failure) -> OTP {
        let type = try required("type", of: request)
        guard let purpose = Self.purpose(type) else {
            throw .malformed("Type must be signup, email, sms, phone_change, email_change or recovery", in: Self.dialect)
        }
        let address = try self.address(purpose, request)
        guard purpose.isForPhones else { return OTP(purpose: purpose, recipient: .email(try email(address))) }
        let phone = try parse(try PhoneNumber(address), or: .malformed("Phone is not a phone number like +15555550123", in: dialect))
        return OTP(purpose: purpose, recipient: .phone(phone))
    }

    /// A number may come as `email`, where the published client puts it.
    private func address(_ purpose: CodePurpose, _ request: ContractRequest) throws(Failure) -> String {
        guard purpose.isForPhones else { return try required("email", of: request) }
        if let phone = try request.text("phone"), !phone.isEmpty { return phone }
        if let number = try request.text("email"), !number.isEmpty, !number.utf8.contains(UInt8(ascii: "@")) { return number }
        throw Self.missing("phone")
    }

    private static func purpose(_ type: String) -> CodePurpose? {
        switch type {
        case "signup": .signUp
        case "email": .email
        case "sms": .sms
        case "phone_change": .phoneChange
        case "email_change": .emailChange
        case "recovery": .recovery
        default: nil
        }
    }
}

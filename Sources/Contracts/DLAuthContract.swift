import Accounts
import Gate
import HTTP
import Wire

/// The `dlauth` contract: accounts with email, phone and metadata, codes for many purposes, and rotated sessions.
struct DLAuthContract: ClientContract {
    enum Endpoint: String, AccountEndpoint {
        case signUp = "sign-up"
        case signIn = "sign-in"
        case signOut = "sign-out"
        case user
        case resendOTP = "resend-otp"
        case verifyOTP = "verify-otp"
        case forgotPassword = "forgot-password"
        case resetPassword = "reset-password"
        case updatePassword = "update-password"
        case refreshSession = "refresh-session"

        var method: HTTP.Method {
            switch self {
            case .user: .get
            case .updatePassword: .put
            case .signUp, .signIn, .signOut, .resendOTP, .verifyOTP, .forgotPassword, .resetPassword, .refreshSession: .post
            }
        }

        var path: String {
            switch self {
            case .signUp: "/auth/signup"
            case .signIn: "/auth/signin"
            case .signOut: "/auth/signout"
            case .user: "/auth/user"
            case .resendOTP: "/auth/otp/resend"
            case .verifyOTP: "/auth/otp/verify"
            case .forgotPassword: "/auth/password/forgot"
            case .resetPassword: "/auth/password/reset"
            case .updatePassword: "/auth/password/update"
            case .refreshSession: "/auth/token/refresh"
            }
        }

        var auth: AuthMode {
            switch self {
            case .signOut, .user, .updatePassword: .required
            case .resendOTP, .verifyOTP: .optional
            case .signUp, .signIn, .forgotPassword, .resetPassword, .refreshSession: .none
            }
        }
    }

    static let id = ContractID.dlauth
    static let dialect = Dialect.dlauth

    private let services: ContractServices

    init(_ services: ContractServices) { self.services = services }

    func answer(_ endpoint: Endpoint, _ request: ContractRequest) async throws -> LocalResponse {
        switch endpoint {
        case .signUp: try await signUp(request)
        case .signIn: try await signIn(request)
        case .signOut: try await signOut(request)
        case .user: try await user(request)
        case .resendOTP: try await resendOTP(request)
        case .verifyOTP: try await verifyOTP(request)
        case .forgotPassword: try await forgotPassword(request)
        case .resetPassword: try await resetPassword(request)
        case .updatePassword: try await updatePassword(request)
        case .refreshSession: try await refreshSession(request)
        }
    }

    // MARK: signing up, in and out

    private func signUp(_ request: ContractRequest) async throws -> LocalResponse {
        let email = try EmailAddress(required("email", of: request))
        let password = try Password(required("password", of: request))
        var registration = Registration(email: email, password: password)
        if let metadata = try request.body.json("metadata") {
            registration.metadata = try Metadata(json: metadata.rawBytes)
        }
        let signedIn = try await services.passwords.signUp(
            registration, rules: .length, contract: Self.id, mustConfirmEmail: services.mustConfirmEmail,
            caller: request.caller)
        return DLAuthAnswer.session(signedIn.account, signedIn.grant)
    }

    /// The published client also sends a `username` in place of the email.
    private func signIn(_ request: ContractRequest) async throws -> LocalResponse {
        var name: SignInName?
        if try request.body.text("email") == nil, let text = try request.body.text("username") {
            name = try Username(text).map { .username($0) }
        }
        let known = try name ?? .email(EmailAddress(required("email", of: request)))
        let password = try Password(required("password", of: request))
        let signedIn = try await services.passwords.signIn(
            known, password, contract: Self.id, mustConfirmEmail: services.mustConfirmEmail, caller: request.caller)
        return DLAuthAnswer.session(signedIn.account, signedIn.grant)
    }

    private func signOut(_ request: ContractRequest) async throws -> LocalResponse {
        let session = try request.requiredSession(in: Self.dialect)
        try await services.sessions.signOut(session, caller: request.caller)
        return DLAuthAnswer.message("Successfully signed out")
    }

    private func user(_ request: ContractRequest) async throws -> LocalResponse {
        let session = try request.requiredSession(in: Self.dialect)
        guard let account = try await services.accounts.account(session.user) else { throw AccountError.noSuchAccount }
        return DLAuthAnswer.user(account)
    }

    private func refreshSession(_ request: ContractRequest) async throws -> LocalResponse {
        let token = try required("refresh_token", of: request)
        let granted = try await services.sessions.refresh(token, contract: Self.id, caller: request.caller)
        return DLAuthAnswer.refreshed(granted)
    }

    // MARK: codes

    private func resendOTP(_ request: ContractRequest) async throws -> LocalResponse {
        let session = try request.session(in: Self.dialect)
        let otp = try OTP(request)
        // Only a session can use such a code; without one, anybody could have messages sent to any number.
        if otp.changesContact, session == nil { throw Failure(.unauthorized(.missing), in: Self.dialect) }
        // A new address belongs to nobody yet; every other code is for who has an account there.
        let audience: Codes.Audience = otp.changesContact ? .anyone : .holders
        try await services.codes.send(otp.purpose, to: otp.recipient, audience, caller: request.caller)
        return DLAuthAnswer.message("OTP sent successfully")
    }

    private func verifyOTP(_ request: ContractRequest) async throws -> LocalResponse {
        let session = try request.session(in: Self.dialect)
        let otp = try OTP(request)
        let code = try required("token", of: request)
        let granted = try await services.codes.verify(
            code, otp.purpose, of: otp.recipient, for: proof(otp, session), contract: Self.id, session: session,
            caller: request.caller)
        return DLAuthAnswer.session(granted.account, granted.grant)
    }

    /// What the code is to prove.
    private func proof(_ otp: OTP, _ session: CallerSession?) throws -> ContactProof {
        switch otp.purpose {
        case .signUp, .email, .recovery, .sms, .link: return .signIn(caller: session?.user)
        case .emailChange, .phoneChange:
            guard let session else { throw Failure(.unauthorized(.missing), in: Self.dialect) }
            return .change(caller: session.user)
        }
    }

    // MARK: passwords

    private func forgotPassword(_ request: ContractRequest) async throws -> LocalResponse {
        try await services.resets.forgot(EmailAddress(required("email", of: request)), caller: request.caller)
        return DLAuthAnswer.message("Password reset email sent")
    }

    private func resetPassword(_ request: ContractRequest) async throws -> LocalResponse {
        let token = try required("token", of: request)
        let password = try Password(required("new_password", of: request))
        let granted = try await services.resets.reset(
            token: token, to: password, rules: .length, contract: Self.id, caller: request.caller)
        return DLAuthAnswer.session(granted.account, granted.grant)
    }

    private func updatePassword(_ request: ContractRequest) async throws -> LocalResponse {
        let session = try request.requiredSession(in: Self.dialect)
        let password = try Password(required("new_password", of: request))
        let granted = try await services.passwords.changePassword(
            to: password, rules: .length, session: session, caller: request.caller)
        return DLAuthAnswer.session(granted.account, granted.grant)
    }

    private func required(_ name: String, of request: ContractRequest) throws -> String {
        guard let text = try request.body.text(name), !text.isEmpty else { throw Self.missing(name) }
        return text
    }

    /// `Email is required`, `New password is required`.
    static func missing(_ name: String) -> Failure {
        let words = name.replacing("_", with: " ")
        return .malformed("\(words.prefix(1).uppercased())\(words.dropFirst()) is required", in: dialect)
    }

    // MARK: refusals

    func failure(_ error: AccountError, at endpoint: Endpoint) -> Failure {
        switch error {
        case .malformedEmail: .malformed("Email is not a valid email address", in: Self.dialect)
        case .malformedPhone: .malformed("Phone is not a phone number like +15555550123", in: Self.dialect)
        case .malformedUsername: .malformed("Username is not a valid username", in: Self.dialect)
        case .malformedMetadata: .malformed("Metadata must be a JSON object of plain values", in: Self.dialect)
        case .metadataTooLarge: .malformed("Metadata must not be larger than 16 KiB", in: Self.dialect)
        case .unfitPassword(let fault): .malformed(Self.sentence(fault), in: Self.dialect)
        case .emailTaken: Failure(422, "user_already_exists", "A user with this email already exists")
        case .phoneTaken: Failure(422, "user_already_exists", "A user with this phone already exists")
        case .noSuchAccount: Failure(404, "user_not_found", "User not found")
        case .invalidCredentials: Failure(401, "invalid_credentials", "Invalid email or password")
        case .invalidCode: Failure(401, "invalid_token", "The code is wrong, spent or expired")
        case .invalidResetToken: Failure(401, "invalid_token", "The reset token is wrong, spent or expired")
        case .invalidRefreshToken: Failure(401, "invalid_token", "Invalid refresh token")
        case .refreshTokenExpired: Failure(401, "token_expired", "Refresh token has expired")
        case .sessionEnded: Failure(.unauthorized(.revoked), in: Self.dialect)
        case .tooManyAttempts(let seconds): .rateLimited(seconds, in: Self.dialect)
        case .overloaded(let seconds), .unavailable(let seconds): .away(seconds, in: Self.dialect)
        case .broken: Failure(.internalError, in: Self.dialect)
        // What the accounts say of calls that this contract does not make.
        case .malformedName, .malformedActor, .providerOff, .identityRefused, .actorNotGranted, .providerUnavailable:
            Failure(.internalError, in: Self.dialect)
        }
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
    /// What a code is for and where it goes, as the document spells it.
    fileprivate struct OTP {
        let purpose: CodePurpose
        let recipient: Recipient

        init(_ request: ContractRequest) throws {
            guard let type = try request.body.text("type"), !type.isEmpty else { throw DLAuthContract.missing("type") }
            guard let purpose = Self.purpose(type) else {
                throw Failure.malformed("Type must be signup, email, sms, phone_change, email_change or recovery", in: .dlauth)
            }
            let name = purpose.isForPhones ? "phone" : "email"
            guard let address = try request.body.text(name), !address.isEmpty else { throw DLAuthContract.missing(name) }
            self.purpose = purpose
            recipient = purpose.isForPhones ? .phone(try PhoneNumber(address)) : .email(try EmailAddress(address))
        }

        /// Whether the code joins an address to an account that had another, or none.
        var changesContact: Bool {
            switch purpose {
            case .emailChange, .phoneChange: true
            case .signUp, .email, .recovery, .sms, .link: false
            }
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
}

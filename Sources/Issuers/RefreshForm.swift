internal import Gate
internal import Wire

/// The request and response format of a refresh endpoint, by contract.
package enum RefreshForm: CaseIterable, Sendable {
    case password, provider, dlauth, anonymous

    /// The JSON body of the request.
    func request(_ token: [UInt8]) -> [UInt8] {
        var out = ByteBuffer()
        JSONWriter.append(to: &out) { json in
            json.beginObject()
            json.key(tokenName)
            json.string(token.rawBytes)
            json.endObject()
        }
        return out.readable.array
    }

    /// Parses the tokens of a 2xx response; nil if it has another format. A refresh token equal to `sent` counts as not rotated.
    func tokens(in answer: [UInt8], insteadOf sent: [UInt8]) -> RefreshedTokens? {
        do throws(RequestObject.Fault) {
            let answer = try RequestObject(answer)
            var access: String?
            for name in accessNames where access == nil { access = try answer.text(name) }
            guard let access else { return nil }
            let refresh = try answer.text(tokenName).map { Array($0.utf8) }
            let tokens = RefreshedTokens(access: Array(access.utf8), refresh: refresh == sent ? nil : refresh)
            guard tokens.refresh.map(RefreshedTokens.isSendable) ?? true else { return nil }
            return tokens
        } catch {
            return nil
        }
    }

    /// The name of the refresh token in request and response.
    private var tokenName: String {
        switch self {
        case .password: "refresh"
        case .provider, .anonymous: "refreshToken"
        case .dlauth: "refresh_token"
        }
    }

    private var accessNames: [String] {
        switch self {
        case .password: ["access"]
        case .provider: ["accessToken"]
        case .dlauth: ["access_token", "token"]
        case .anonymous: ["sessionToken"]
        }
    }
}

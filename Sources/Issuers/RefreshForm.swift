internal import Gate
internal import Wire

/// The request and response format of a refresh endpoint.
package struct RefreshForm: Sendable {
    /// The name of the refresh token in request and response.
    private let tokenName: String
    /// The names of the access token in the response; the first that is there counts.
    private let accessNames: [String]

    package init(token: String, access: [String]) {
        tokenName = token
        accessNames = access
    }

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
}

import Wire

/// An assertion of a credential, before its key is known.
package struct UnverifiedAssertion: Sendable {
    package let credentialID: [UInt8]
    /// The id that was given to the authenticator for the user; not each credential brings it.
    package let userHandle: [UInt8]?
    package let challenge: [UInt8]
    let data: AuthenticatorData
    /// The authenticator data and the hash of the client data, as they are signed.
    let signed: [UInt8]
    let signature: [UInt8]

    /// The counter and the backup state that the authenticator tells. Throws unless the signature by `publicKey` (SubjectPublicKeyInfo in DER)
    /// holds, and the credential can be backed up or not as it could when it was registered.
    package func verified(
        by publicKey: [UInt8], _ algorithm: SigningAlgorithm, isBackupEligible: Bool
    ) throws(PasskeyFault) -> (signCount: UInt32, isBackedUp: Bool) {
        guard try PasskeyKey(der: publicKey, algorithm).verifies(signature, over: signed) else {
            throw PasskeyFault("the signature is not valid")
        }
        guard data.flags.contains(.backupEligible) == isBackupEligible else {
            throw PasskeyFault("the authenticator data and the registration differ about whether the credential can be backed up")
        }
        return (data.signCount, data.flags.contains(.backedUp))
    }
}

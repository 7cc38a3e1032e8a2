/// The version of this build, as `tollgate --version`, logs and the `Server` of mail and fetches show it.
package enum Version {
    package static let text = "0.1.0"
}

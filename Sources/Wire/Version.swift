/// The version of this build, in `tollgate version`, the help, a metric, and the User-Agent of fetches.
package enum Version {
    package static let text = "0.1.0"
}

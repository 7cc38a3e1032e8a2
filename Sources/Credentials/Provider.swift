/// An OpenID provider. Stored: the texts never change.
package enum Provider: String, CaseIterable, Sendable {
    case apple
    case google
}

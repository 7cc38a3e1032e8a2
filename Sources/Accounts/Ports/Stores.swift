/// The stores of a configuration, and its product lines.
package struct Stores: Sendable {
    package let storefronts: [any Storefront]
    package let products: Products

    package init(_ storefronts: [any Storefront], _ products: Products) {
        self.storefronts = storefronts
        self.products = products
    }

    package static let none = Stores([], .none)

    /// nil if the store is not configured.
    package subscript(_ source: PurchaseSource) -> (any Storefront)? { storefronts.first { $0.source == source } }
}

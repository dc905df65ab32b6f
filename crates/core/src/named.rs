//! Enums of words.

/// Writes an enum whose variants have names: `ALL` of them in their order, `name`, and `Display`, which is the name.
///
/// ```
/// taut_core::named! {
///     /// Which way.
///     #[derive(Clone, Copy, Debug, PartialEq, Eq)]
///     pub enum Way {
///         /// There.
///         There = "there",
///         /// And back.
///         Back = "back",
///     }
/// }
/// assert_eq!(Way::ALL.map(Way::name), ["there", "back"]);
/// assert_eq!(Way::Back.to_string(), "back");
/// ```
#[macro_export]
macro_rules! named {
    ($(#[$meta:meta])* $visible:vis enum $enum:ident { $($(#[$doc:meta])* $variant:ident = $name:literal,)* }) => {
        $(#[$meta])*
        $visible enum $enum { $($(#[$doc])* $variant,)* }

        impl $enum {
            /// All of them, in their order.
            $visible const ALL: [Self; [$($name),*].len()] = [$(Self::$variant),*];

            /// What it is called.
            $visible const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }
        }

        impl ::std::fmt::Display for $enum {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.write_str(self.name())
            }
        }
    };
}

//! Tables of metrics.

/// Declares a struct of metrics from a table with the lines `field: type, "name", "help";`. Registers the metrics in this order. A metric
/// that does not begin as the default of its type has `= value` after it. The fields below `beside` are no metrics.
#[macro_export]
macro_rules! metrics {
    (@new) => { Default::default() };
    (@new $new:expr) => { $new };
    (
        $(#[$about:meta])*
        $vis:vis struct $Metrics:ident {
            $($metric:ident: $kind:ty $(= $new:expr)?, $name:literal, $help:literal;)*
        } beside {
            $($(#[$note:meta])* $field:ident: $type:ty,)*
        }
    ) => {
        $(#[$about])*
        #[derive(Debug)]
        $vis struct $Metrics {
            $($metric: $kind,)*
            $($(#[$note])* $field: $type,)*
        }

        impl Default for $Metrics {
            fn default() -> Self {
                Self { $($metric: $crate::metrics!(@new $($new)?),)* $($field: Default::default(),)* }
            }
        }

        impl $Metrics {
            /// Adds the metrics to the registry of the process.
            pub(super) fn register(&self, registry: &mut ::prometheus_client::registry::Registry) {
                $(registry.register($name, $help, self.$metric.clone());)*
            }
        }
    };
}

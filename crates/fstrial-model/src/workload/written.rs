//! The table of a pattern as it is written: only its own keys, so that it can be laid over that of a preset.

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::DeserializeOwned, de::Error as _};
use std::{borrow::Cow, marker::PhantomData};
use toml::Table;

/// Keys that settle to `T`, checked to accept them. Omitted keys come from the parent entry, or are `T`'s defaults.
#[derive(Debug, Clone, PartialEq)]
pub struct Written<T>(Table, PhantomData<T>);

impl<T> Written<T> {
    /// The written table, if any, with a word under a key.
    pub(super) fn with(written: Option<Self>, key: &str, word: &str) -> Self {
        let mut keys = written.map(|written| written.0).unwrap_or_default();
        keys.insert(key.to_owned(), word.into());
        Self(keys, PhantomData)
    }
}

impl<'de, T: DeserializeOwned> Deserialize<'de> for Written<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let keys = Table::deserialize(from)?;
        keys.clone().try_into::<T>().map_err(|error| D::Error::custom(error.message()))?;
        Ok(Self(keys, PhantomData))
    }
}

impl<T> Serialize for Written<T> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(to)
    }
}

impl<T: JsonSchema> JsonSchema for Written<T> {
    fn schema_name() -> Cow<'static, str> {
        T::schema_name()
    }

    fn schema_id() -> Cow<'static, str> {
        T::schema_id()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        T::json_schema(generator)
    }
}

//! The table of a pattern as it is written: only its own keys, so that it can be laid over that of a preset.

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::DeserializeOwned, de::Error as _};
use std::{borrow::Cow, marker::PhantomData};
use toml::Table;

/// Keys that settle to `T`, which has been seen to take them. What is left out is as in the entry around it, or as `T` has it.
#[derive(Debug, Clone, PartialEq)]
pub struct Written<T> {
    keys: Table,
    settles_to: PhantomData<T>,
}

impl<'de, T: DeserializeOwned> Deserialize<'de> for Written<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let keys = Table::deserialize(from)?;
        keys.clone().try_into::<T>().map_err(|error| D::Error::custom(error.message()))?;
        Ok(Self { keys, settles_to: PhantomData })
    }
}

impl<T> Serialize for Written<T> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.keys.serialize(to)
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

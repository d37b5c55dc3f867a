//! Prost with small buffers, and with a look at what a message would come to before it is decoded: a hub agent has a stream
//! per member, most messages are heartbeats of a hundred bytes, and one member may send anything.

use std::marker::PhantomData;

use bytes::Buf as _;
use prost::Message;
use tonic::{
    Status,
    codec::{BufferSettings, Codec, DecodeBuf, Decoder},
};
use tonic_prost::ProstCodec;

use crate::weight::{self, Weighed};

/// What a stream holds while nothing is on its way, each way. Buffers grow with a message.
const BUFFER: usize = 512;
/// How much is encoded before it is sent; tonic's own default.
const YIELD: usize = 32 * 1024;

/// [`ProstCodec`] but for the buffers and the weight.
#[derive(Debug, Clone)]
pub(crate) struct SmallBuffers<T, U>(PhantomData<(T, U)>);

impl<T, U> Default for SmallBuffers<T, U> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<T, U> Codec for SmallBuffers<T, U>
where
    T: Message + Send + 'static,
    U: Message + Default + Weighed + Send + 'static,
{
    type Encode = T;
    type Decode = U;
    type Encoder = <ProstCodec<T, U> as Codec>::Encoder;
    type Decoder = Weighing<U>;

    fn encoder(&mut self) -> Self::Encoder {
        ProstCodec::<T, U>::raw_encoder(BufferSettings::new(BUFFER, YIELD))
    }

    fn decoder(&mut self) -> Self::Decoder {
        Weighing(PhantomData)
    }
}

/// Decodes what is not too heavy.
#[derive(Debug)]
pub(crate) struct Weighing<U>(PhantomData<U>);

impl<U: Message + Default + Weighed> Decoder for Weighing<U> {
    type Item = U;
    type Error = Status;

    fn decode(&mut self, bytes: &mut DecodeBuf<'_>) -> Result<Option<U>, Status> {
        // The whole message, in one piece: that is how tonic reads it.
        match U::weight(bytes.chunk()) {
            Some(weight) if weight <= weight::MAX => {}
            Some(_) => return Err(Status::invalid_argument("the message has too many parts")),
            None => return Err(Status::internal("the message cannot be decoded")),
        }
        let message = U::decode(bytes).map_err(|error| Status::internal(error.to_string()))?;
        Ok(Some(message))
    }

    fn buffer_settings(&self) -> BufferSettings {
        BufferSettings::new(BUFFER, YIELD)
    }
}

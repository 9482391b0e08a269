//! Tensor types and tensor infos.

macro_rules! tensor_types {
    ($($(#[$doc:meta])* $variant:ident = $id:literal, $name:literal, $len:literal, $bytes:literal;)*) => {
        /// How the elements of a tensor are stored: the ggml types, by their number in the file.
        ///
        /// This build computes with [`F32`](Self::F32), [`F16`](Self::F16) and [`Q8_0`](Self::Q8_0); the others can be
        /// identified, measured and copied.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[allow(non_camel_case_types)]
        pub enum TensorType { $($(#[$doc])* $variant = $id,)* }

        impl TensorType {
            /// The type with this number, if ggml has one.
            pub fn from_id(id: u32) -> Option<Self> {
                match id { $($id => Some(Self::$variant),)* _ => None }
            }

            /// The name ggml gives the type, in upper case.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// Elements in one block; rows are whole blocks.
            pub fn block_len(self) -> u64 {
                match self { $(Self::$variant => $len,)* }
            }

            /// Bytes of one block.
            pub fn block_bytes(self) -> u64 {
                match self { $(Self::$variant => $bytes,)* }
            }
        }

        #[cfg(test)]
        const ALL: &[TensorType] = &[$(TensorType::$variant,)*];
    };
}

tensor_types! {
    /// 32-bit float.
    F32 = 0, "F32", 1, 4;
    /// 16-bit IEEE float.
    F16 = 1, "F16", 1, 2;
    /// 4-bit blocks of 32 with a scale.
    Q4_0 = 2, "Q4_0", 32, 18;
    /// 4-bit blocks of 32 with a scale and a minimum.
    Q4_1 = 3, "Q4_1", 32, 20;
    /// 5-bit blocks of 32 with a scale.
    Q5_0 = 6, "Q5_0", 32, 22;
    /// 5-bit blocks of 32 with a scale and a minimum.
    Q5_1 = 7, "Q5_1", 32, 24;
    /// 8-bit blocks of 32 with one F16 scale.
    Q8_0 = 8, "Q8_0", 32, 34;
    /// 8-bit blocks of 32 with a scale and a sum.
    Q8_1 = 9, "Q8_1", 32, 36;
    /// 2-bit super-blocks of 256.
    Q2_K = 10, "Q2_K", 256, 84;
    /// 3-bit super-blocks of 256.
    Q3_K = 11, "Q3_K", 256, 110;
    /// 4-bit super-blocks of 256.
    Q4_K = 12, "Q4_K", 256, 144;
    /// 5-bit super-blocks of 256.
    Q5_K = 13, "Q5_K", 256, 176;
    /// 6-bit super-blocks of 256.
    Q6_K = 14, "Q6_K", 256, 210;
    /// 8-bit super-blocks of 256.
    Q8_K = 15, "Q8_K", 256, 292;
    /// 2-bit codebook blocks.
    IQ2_XXS = 16, "IQ2_XXS", 256, 66;
    /// 2-bit codebook blocks.
    IQ2_XS = 17, "IQ2_XS", 256, 74;
    /// 3-bit codebook blocks.
    IQ3_XXS = 18, "IQ3_XXS", 256, 98;
    /// 1.5-bit codebook blocks.
    IQ1_S = 19, "IQ1_S", 256, 50;
    /// 4-bit non-linear blocks of 32.
    IQ4_NL = 20, "IQ4_NL", 32, 18;
    /// 3-bit codebook blocks.
    IQ3_S = 21, "IQ3_S", 256, 110;
    /// 2-bit codebook blocks.
    IQ2_S = 22, "IQ2_S", 256, 82;
    /// 4-bit non-linear super-blocks of 256.
    IQ4_XS = 23, "IQ4_XS", 256, 136;
    /// 8-bit integer.
    I8 = 24, "I8", 1, 1;
    /// 16-bit integer.
    I16 = 25, "I16", 1, 2;
    /// 32-bit integer.
    I32 = 26, "I32", 1, 4;
    /// 64-bit integer.
    I64 = 27, "I64", 1, 8;
    /// 64-bit float.
    F64 = 28, "F64", 1, 8;
    /// 1.75-bit codebook blocks.
    IQ1_M = 29, "IQ1_M", 256, 56;
    /// 16-bit brain float.
    BF16 = 30, "BF16", 1, 2;
    /// Ternary blocks of 256.
    TQ1_0 = 34, "TQ1_0", 256, 54;
    /// Ternary blocks of 256.
    TQ2_0 = 35, "TQ2_0", 256, 66;
    /// 4-bit microscaling floats, blocks of 32.
    MXFP4 = 39, "MXFP4", 32, 17;
    /// 4-bit floats, blocks of 64.
    NVFP4 = 40, "NVFP4", 64, 36;
    /// 1-bit blocks of 128.
    Q1_0 = 41, "Q1_0", 128, 18;
}

impl TensorType {
    /// The number of the type in a GGUF file.
    pub fn id(self) -> u32 {
        self as u32
    }

    /// Bytes of a tensor of this type with the dimensions `shape` (`ne0` first), or `None` when the product overflows
    /// or `ne0` is not a whole number of blocks.
    pub fn n_bytes(self, shape: &[u64]) -> Option<u64> {
        let ne0 = shape.first().copied().unwrap_or(1);
        if !ne0.is_multiple_of(self.block_len()) {
            return None;
        }
        let row_bytes = (ne0 / self.block_len()).checked_mul(self.block_bytes())?;
        shape.iter().skip(1).try_fold(row_bytes, |bytes, &ne| bytes.checked_mul(ne))
    }
}

impl std::fmt::Display for TensorType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// Name, shape, type and place of one tensor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorInfo {
    /// Name, unique in its file.
    pub name: String,
    /// Dimensions in ggml's order: `ne0` (the contiguous one) first. A PyTorch `[out, in]` matrix is `[in, out]` here.
    pub shape: Vec<u64>,
    /// Type of the elements.
    pub ty: TensorType,
    /// Bytes from the start of the data section.
    pub offset: u64,
    /// Bytes of the data, without padding.
    pub n_bytes: u64,
}

impl TensorInfo {
    /// Number of elements. The reader and the writer have checked that it does not overflow.
    pub fn n_elements(&self) -> u64 {
        self.shape.iter().fold(1, |n, &ne| n.saturating_mul(ne))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_types_are_one_to_one() {
        for &ty in ALL {
            assert_eq!(TensorType::from_id(ty.id()), Some(ty));
        }
        for id in [4, 5, 31, 32, 33, 36, 37, 38, 42, u32::MAX] {
            assert_eq!(TensorType::from_id(id), None);
        }
    }

    #[test]
    fn sizes() {
        assert_eq!(TensorType::F16.n_bytes(&[768, 10]), Some(768 * 10 * 2));
        assert_eq!(TensorType::Q8_0.n_bytes(&[64, 3]), Some(2 * 34 * 3));
        assert_eq!(TensorType::Q8_0.n_bytes(&[48, 3]), None);
        assert_eq!(TensorType::F32.n_bytes(&[1 << 32, 1 << 32]), None);
        assert_eq!(TensorType::F32.n_bytes(&[1 << 62]), None);
    }
}

"""The public names of NVIDIA DALI 2.4 by module: for each, :mod:`seqpipe.dali.__main__` tells whether it is here."""

from __future__ import annotations

from typing import Final

__all__ = ["DALI_NAMES"]

DALI_NAMES: Final[dict[str, str]] = {
    "": "OperatorConcurrency Pipeline StreamPolicy newaxis pipeline_def",
    "pipeline": "do_not_convert experimental pipeline_def",
    "Pipeline": (
        "add_sink batch_size build checkpoint concurrency cpu_queue_size current "
        "default_cuda_stream_priority define_graph deserialize deserialize_and_build device_id empty "
        "enable_api_check enable_memory_stats epoch_size exec_async exec_dynamic exec_pipelined "
        "exec_separated executor_statistics external_source_shm_statistics feed_input gpu_queue_size "
        "input_feed_count is_restored_from_checkpoint iter_setup max_batch_size max_streams num_outputs "
        "num_threads output_dtype output_ndim output_stream outputs pop_current prefetch_queue_depth "
        "push_current py_num_workers py_start_method reader_meta release_outputs reset run "
        "save_graph_to_dot_file schedule_run seed serialize set_affinity set_outputs share_outputs "
        "start_py_workers stream_policy"
    ),
    "types": (
        "ANY_DATA BGR BOOL BatchInfo CPU_ONLY_DEVICE_ID CUDAStream Constant ConstantNode DALIDataType "
        "DALIImageType DALIInterpType DATA_TYPE FEATURE FLOAT FLOAT16 FLOAT64 GRAY IMAGE_TYPE INT16 INT32 "
        "INT64 INT8 INTERP_CUBIC INTERP_GAUSSIAN INTERP_LANCZOS3 INTERP_LINEAR INTERP_NN "
        "INTERP_TRIANGULAR INTERP_TYPE NCHW NFCHW NFHWC NHWC NO_TYPE PYTHON_OBJECT PipelineAPIType RGB "
        "SAME STRING SampleInfo ScalarConstant TENSOR_LAYOUT TensorLayout UINT16 UINT32 UINT64 UINT8 "
        "YCbCr to_dali_type to_numpy_type"
    ),
    "math": (
        "abs acos acosh asin asinh atan atan2 atanh cbrt ceil clamp cos cosh exp fabs floor fpow log "
        "log10 log2 max min pow rsqrt sin sinh sqrt tan tanh"
    ),
    "fn": (
        "audio_decoder audio_resample batch_permutation bb_flip bbox_paste bbox_rotate box_encoder "
        "brightness brightness_contrast caffe2_reader caffe_reader cast cast_like cat clahe coco_reader "
        "coin_flip color_space_conversion color_twist constant contrast coord_flip coord_transform copy "
        "crop crop_mirror_normalize debayer dl_tensor_python_function dump_image element_extract equalize "
        "erase expand_dims external_source fast_resize_crop_mirror file_reader filter flip full full_like "
        "gaussian_blur get_property grid_mask hsv hue image_decoder image_decoder_crop "
        "image_decoder_random_crop image_decoder_slice jitter jpeg_compression_distortion laplacian "
        "lookup_table mel_filter_bank mfcc multi_paste mxnet_reader nemo_asr_reader nonsilent_region "
        "normal_distribution normalize numpy_reader one_hot ones ones_like optical_flow pad paste "
        "peek_image_shape per_frame permute_batch power_spectrum preemphasis_filter python_function "
        "random_bbox_crop random_crop_generator random_resized_crop reinterpret reshape resize "
        "resize_crop_mirror roi_random_crop rotate saturation sequence_reader sequence_rearrange shapes "
        "slice spectrogram sphere squeeze ssd_random_crop stack tensor_resize tfrecord_reader to_decibels "
        "transform_translation transpose uniform video_reader video_reader_resize warp_affine water zeros "
        "zeros_like"
    ),
    "fn.decoders": "audio image image_crop image_random_crop image_slice inflate numpy video",
    "fn.experimental": (
        "audio_resample debayer dilate equalize erode filter inflate median_blur peek_image_shape remap "
        "resize tensor_resize warp_perspective"
    ),
    "fn.experimental.decoders": "image image_crop image_random_crop image_slice video",
    "fn.experimental.inputs": "video",
    "fn.experimental.readers": "fits video",
    "fn.io.file": "read",
    "fn.noise": "gaussian salt_and_pepper shot",
    "fn.random": "beta choice coin_flip normal uniform",
    "fn.readers": "caffe caffe2 coco file mxnet nemo_asr numpy sequence tfrecord video video_resize webdataset",
    "fn.reductions": "max mean mean_square min rms std_dev sum variance",
    "fn.segmentation": "random_mask_pixel random_object_bbox select_masks",
    "fn.transforms": "combine crop rotation scale shear translation",
    "auto_aug.augmentations": (
        "auto_contrast brightness color contrast equalize identity invert poster_mask_uint8 posterize "
        "rotate sharpness sharpness_kernel sharpness_kernel_shifted shear_x shear_y shift_enhance_range "
        "solarize solarize_add solarize_add_shift translate_x translate_x_no_shape translate_y "
        "translate_y_no_shape warp_x_param warp_y_param"
    ),
    "auto_aug.auto_augment": (
        "apply_auto_augment auto_augment auto_augment_image_net get_image_net_policy "
        "get_reduced_cifar10_policy get_reduced_image_net_policy get_svhn_policy"
    ),
    "auto_aug.core": "Policy augmentation select signed_bin",
    "auto_aug.rand_augment": (
        "apply_rand_augment get_rand_augment_non_monotonic_suite get_rand_augment_suite rand_augment"
    ),
    "auto_aug.trivial_augment": "apply_trivial_augment get_trivial_augment_wide_suite trivial_augment_wide",
    "data_node.DataNode": "cpu gpu property shape source_info",
    "experimental.dynamic": (
        "Batch DType DataType Device DeviceLike EvalContext EvalMode ExternalSource ImageType InterpType "
        "Stream Tensor ThreadPool as_batch as_tensor batch bfloat16 bool capture checkpoint device dtype "
        "float16 float32 float64 get_current_stream get_default_stream get_num_threads imread int16 int32 "
        "int64 int8 local math pytorch set_current_stream set_default_stream set_num_threads stream "
        "tensor type_id uint16 uint32 uint64 uint8"
    ),
    "experimental.torchvision": "v2",
    "ops": "Compose",
    "plugin.base_iterator": "LastBatchPolicy",
    "plugin.jax": "DALIGenericIterator data_iterator",
    "plugin.jax.clu": "DALIGenericPeekableIterator peekable_data_iterator",
    "plugin.jax.fn": "jax_function",
    "plugin.numba": "NumbaFunction",
    "plugin.numba.experimental": "NumbaFunction",
    "plugin.numba.fn.experimental": "numba_function",
    "plugin.paddle": "DALIClassificationIterator DALIGenericIterator feed_ndarray",
    "plugin.pytorch": (
        "DALIClassificationIterator DALIGenericIterator DALIRaggedIterator LastBatchPolicy "
        "TorchPythonFunction feed_ndarray"
    ),
    "plugin.pytorch.experimental.proxy": "DALIServer",
    "plugin.pytorch.fn": "torch_python_function",
    "plugin.tf": "DALIDataset DALIIterator DALIIteratorWrapper",
    "plugin.triton": "autoserialize",
    "plugin_manager": "load_directory load_library",
    "tensors.TensorCPU": (
        "as_cpu copy_to_external data_ptr dtype get_property layout ndim reinterpret set_layout shape "
        "source_info squeeze"
    ),
    "tensors.TensorListCPU": (
        "as_array as_cpu as_reshaped_tensor as_tensor at broadcast copy_to_external data_ptr dtype "
        "from_dlpack_list is_dense_tensor layout ndim reinterpret reset set_layout shape"
    ),
    "tfrecord": "Feature FixedLenFeature VarLenFeature float32 int64 string",
}
"""Names of each module or class, separated by spaces; the classes of ``ops`` and the functions of dynamic mode follow
from those of ``fn``."""

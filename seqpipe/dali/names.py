"""The public names of NVIDIA DALI 2.4 by module: for each, :mod:`seqpipe.dali.__main__` tells whether it is here.

``name=5`` is one that 5 of 137 public programs use: 90 notebooks and scripts of DALI's documentation (of its fork
``jantonguirao/DALI``, 2.1), 28 of Triton's DALI backend, 15 of NVIDIA's DeepLearningExamples, 2 of MIST and 2 of
solo-learn, as of 2026-11-28. An operator of ``ops`` or of dynamic mode counts as that of ``fn``; methods of a pipeline
count by their names.
"""

from __future__ import annotations

from typing import Final

__all__ = ["DALI_NAMES", "PROGRAMS"]

PROGRAMS: Final = 137
"""Public programs that were searched for the names."""

DALI_NAMES: Final[dict[str, str]] = {
    "": "OperatorConcurrency Pipeline=34 StreamPolicy newaxis pipeline_def=79",
    "pipeline": "do_not_convert experimental pipeline_def",
    "Pipeline": (
        "add_sink batch_size=21 build=49 checkpoint concurrency=1 cpu_queue_size current=6 "
        "default_cuda_stream_priority define_graph deserialize deserialize_and_build=1 device_id=8 empty=3 "
        "enable_api_check enable_memory_stats epoch_size=6 exec_async exec_dynamic exec_pipelined "
        "exec_separated executor_statistics external_source_shm_statistics feed_input=2 gpu_queue_size "
        "input_feed_count is_restored_from_checkpoint iter_setup max_batch_size=4 max_streams num_outputs "
        "num_threads=5 output_dtype=2 output_ndim output_stream outputs pop_current prefetch_queue_depth "
        "push_current py_num_workers py_start_method reader_meta release_outputs=1 reset=10 run=49 "
        "save_graph_to_dot_file schedule_run=2 seed=9 serialize=13 set_affinity set_outputs=17 "
        "share_outputs=1 start_py_workers=1 stream_policy"
    ),
    "types": (
        "ANY_DATA BGR=2 BOOL BatchInfo CPU_ONLY_DEVICE_ID CUDAStream Constant=11 ConstantNode "
        "DALIDataType=9 DALIImageType=2 DALIInterpType=8 DATA_TYPE FEATURE FLOAT=63 FLOAT16=12 FLOAT64 "
        "GRAY=14 IMAGE_TYPE INT16=2 INT32=9 INT64=9 INT8 INTERP_CUBIC=5 INTERP_GAUSSIAN=1 INTERP_LANCZOS3=3 "
        "INTERP_LINEAR=16 INTERP_NN=3 INTERP_TRIANGULAR=3 INTERP_TYPE NCHW=4 NFCHW NFHWC NHWC=5 NO_TYPE "
        "PYTHON_OBJECT PipelineAPIType=1 RGB=35 SAME STRING SampleInfo ScalarConstant TENSOR_LAYOUT "
        "TensorLayout UINT16=1 UINT32=1 UINT64 UINT8=24 YCbCr=3 to_dali_type=1 to_numpy_type=1"
    ),
    "math": (
        "abs acos acosh asin asinh atan atan2 atanh cbrt ceil clamp=2 cos cosh exp fabs floor=1 fpow log "
        "log10 log2 max=1 min=2 pow rsqrt sin sinh sqrt tan tanh"
    ),
    "fn": (
        "audio_decoder audio_resample batch_permutation=1 bb_flip=5 bbox_paste=1 bbox_rotate box_encoder=3 "
        "brightness brightness_contrast=10 caffe2_reader caffe_reader cast=31 cast_like=1 cat=5 clahe "
        "coco_reader coin_flip=3 color_space_conversion=4 color_twist=2 constant contrast coord_flip=1 "
        "coord_transform=4 copy crop=7 crop_mirror_normalize=37 debayer dl_tensor_python_function=1 "
        "dump_image element_extract equalize erase=5 expand_dims=3 external_source=51 "
        "fast_resize_crop_mirror file_reader=1 filter flip=10 full full_like gaussian_blur=4 get_property "
        "grid_mask=1 hsv=6 hue image_decoder=4 image_decoder_crop image_decoder_random_crop=3 "
        "image_decoder_slice jitter=1 jpeg_compression_distortion=2 laplacian lookup_table "
        "mel_filter_bank=5 mfcc=2 multi_paste=1 mxnet_reader=1 nemo_asr_reader nonsilent_region=3 "
        "normal_distribution normalize=4 numpy_reader one_hot=5 ones ones_like optical_flow=2 pad=10 "
        "paste=3 peek_image_shape=1 per_frame permute_batch=1 power_spectrum preemphasis_filter=3 "
        "python_function=1 random_bbox_crop=5 random_crop_generator random_resized_crop=3 reinterpret=2 "
        "reshape=16 resize=51 resize_crop_mirror=2 roi_random_crop=3 rotate=5 saturation sequence_reader "
        "sequence_rearrange shapes=4 slice=12 spectrogram=5 sphere=2 squeeze=3 ssd_random_crop stack=5 "
        "tensor_resize tfrecord_reader=2 to_decibels=5 transform_translation transpose=4 uniform "
        "video_reader video_reader_resize warp_affine=5 water=2 zeros zeros_like"
    ),
    "fn.decoders": "audio=5 image=63 image_crop image_random_crop=4 image_slice=3 inflate numpy video",
    "fn.experimental": (
        "audio_resample debayer dilate equalize erode filter inflate median_blur peek_image_shape remap=1 "
        "resize tensor_resize warp_perspective"
    ),
    "fn.experimental.decoders": "image image_crop image_random_crop image_slice video=7",
    "fn.experimental.inputs": "video=3",
    "fn.experimental.readers": "fits video",
    "fn.io.file": "read=2",
    "fn.noise": "gaussian=1 salt_and_pepper shot",
    "fn.random": "beta choice coin_flip=19 normal=6 uniform=24",
    "fn.readers": (
        "caffe=11 caffe2=9 coco=8 file=28 mxnet=5 nemo_asr numpy=5 sequence tfrecord=6 video=10 "
        "video_resize webdataset=1"
    ),
    "fn.reductions": "max=4 mean=1 mean_square=1 min=4 rms=1 std_dev=1 sum=2 variance=1",
    "fn.segmentation": "random_mask_pixel=1 random_object_bbox=3 select_masks=1",
    "fn.transforms": "combine crop=2 rotation scale shear translation",
    "auto_aug.augmentations": (
        "auto_contrast brightness color contrast equalize identity invert poster_mask_uint8 posterize "
        "rotate sharpness sharpness_kernel sharpness_kernel_shifted shear_x shear_y shift_enhance_range "
        "solarize solarize_add solarize_add_shift translate_x translate_x_no_shape translate_y "
        "translate_y_no_shape warp_x_param warp_y_param"
    ),
    "auto_aug.auto_augment": (
        "apply_auto_augment auto_augment auto_augment_image_net=1 get_image_net_policy "
        "get_reduced_cifar10_policy get_reduced_image_net_policy get_svhn_policy"
    ),
    "auto_aug.core": "Policy augmentation select signed_bin",
    "auto_aug.rand_augment": (
        "apply_rand_augment get_rand_augment_non_monotonic_suite get_rand_augment_suite rand_augment"
    ),
    "auto_aug.trivial_augment": (
        "apply_trivial_augment get_trivial_augment_wide_suite trivial_augment_wide=1"
    ),
    "data_node.DataNode": "cpu gpu property shape source_info",
    "experimental.dynamic": (
        "Batch=5 DType DataType Device DeviceLike EvalContext EvalMode ExternalSource ImageType InterpType "
        "Stream Tensor=6 ThreadPool as_batch=1 as_tensor=5 batch bfloat16 bool capture checkpoint device "
        "dtype float16 float32=3 float64 get_current_stream get_default_stream get_num_threads imread=3 "
        "int16=1 int32 int64 int8 local math pytorch=2 set_current_stream set_default_stream "
        "set_num_threads=1 stream tensor type_id uint16 uint32 uint64 uint8=1"
    ),
    "experimental.torchvision": "v2",
    "ops": "Compose",
    "plugin.base_iterator": "LastBatchPolicy=3",
    "plugin.jax": "DALIGenericIterator=2 data_iterator=6",
    "plugin.jax.clu": "DALIGenericPeekableIterator peekable_data_iterator=1",
    "plugin.jax.fn": "jax_function=2",
    "plugin.numba": "NumbaFunction",
    "plugin.numba.experimental": "NumbaFunction",
    "plugin.numba.fn.experimental": "numba_function=1",
    "plugin.paddle": "DALIClassificationIterator=1 DALIGenericIterator=5 feed_ndarray",
    "plugin.pytorch": (
        "DALIClassificationIterator=5 DALIGenericIterator=11 DALIRaggedIterator=1 LastBatchPolicy=7 "
        "TorchPythonFunction feed_ndarray"
    ),
    "plugin.pytorch.experimental.proxy": "DALIServer=4",
    "plugin.pytorch.fn": "torch_python_function",
    "plugin.tf": "DALIDataset=8 DALIIterator=4 DALIIteratorWrapper",
    "plugin.triton": "autoserialize=15",
    "plugin_manager": "load_directory load_library=2",
    "tensors.TensorCPU": (
        "as_cpu copy_to_external data_ptr dtype get_property layout ndim reinterpret set_layout shape "
        "source_info squeeze"
    ),
    "tensors.TensorListCPU": (
        "as_array as_cpu as_reshaped_tensor as_tensor at broadcast copy_to_external data_ptr dtype "
        "from_dlpack_list is_dense_tensor layout ndim reinterpret reset set_layout shape"
    ),
    "tfrecord": "Feature FixedLenFeature=8 VarLenFeature=5 float32=5 int64=8 string=8",
}
"""Names of each module or class, separated by spaces, with the number of programs that use them.

The classes of ``ops`` and the functions of dynamic mode follow from the names of ``fn``.
"""

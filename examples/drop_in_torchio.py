"""A chain of seqpipe in the place of TorchIO's: ``python examples/drop_in_torchio.py IMAGE LABEL``."""

import sys

import torchio

from seqpipe import ops
from seqpipe.recipes import on_subject

image, label = sys.argv[1:]
augment = ops.Chain(
    ops.RandomAffine3d(rotate=(-15.0, 15.0), scale=(0.9, 1.1)),
    ops.Elastic3d(spacing=16, amplitude=(0.0, 0.3)),
    ops.BiasField(p=0.3),
)
subject = torchio.Subject(image=torchio.ScalarImage(image), label=torchio.LabelMap(label))
for index in range(4):
    done = on_subject(augment, subject, index=index)  # in place of torchio.Compose([...])(subject)
    print(
        done.image.spatial_shape,
        round(float(done.image.data.float().mean()), 3),
        done.label.data.unique().tolist(),
    )
